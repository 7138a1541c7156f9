//! PTX: the text of typical programs in files, what it says of its parameters, and what it refuses.

use crate::build::{barrier, gated_load, int, linear, local, looped, range, run, special};
use crate::files;
use frit_abi::machines::machine;
use frit_abi::{Code, DType, Kernel, Param, Target};
use frit_render::{Error, ptx};
use frit_uop::{Arg, Op, Step, UOp};
use std::process::Command;

fn h200() -> Target {
    machine("H200").unwrap()
}
fn text(kernel: &Kernel) -> &str {
    match &kernel.code {
        Code::Ptx(text) => text,
        other => panic!("{other:?}"),
    }
}
fn written(steps: Vec<Step>) -> Result<Kernel, Error> {
    ptx::render(&linear(steps), &h200())
}

/// The PTX of the files that show some, with their names.
fn texts() -> impl Iterator<Item = (String, String)> {
    let shows = |all: &str| all.contains("\npass: ptx\n");
    files::files().into_iter().filter(move |(_, all)| shows(all)).map(|(path, all)| {
        let name = path.display().to_string();
        let input = all.split_once(files::DIVIDER).map_or(&*all, |(input, _)| input);
        let text = files::run(input, &name);
        (name, text)
    })
}

/// `PTXAS` says where the assembler is, if it is not on the `PATH`.
#[test]
fn the_assembler_takes_the_files() {
    let ptxas = std::env::var_os("PTXAS").unwrap_or("ptxas".into());
    let folder = std::env::temp_dir().join(format!("frit-render-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (name, text) in texts() {
        let isa = text.lines().find_map(|l| l.strip_prefix(".target ")).unwrap();
        let (from, to) = (folder.join("k.ptx"), folder.join("k.cubin"));
        std::fs::write(&from, &text).unwrap();
        match Command::new(&ptxas).args(["-arch", isa, "-o"]).arg(&to).arg(&from).output() {
            Ok(made) => assert!(made.status.success(), "{name}: {made:?}"),
            Err(e) => {
                println!("skipped: {ptxas:?}: {e}");
                break;
            }
        }
    }
    _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn every_instruction_of_the_files_is_in_the_table() {
    let known: Vec<&str> = ptx::FORMS.iter().flat_map(|(forms, _)| forms.split(' ')).collect();
    for (i, form) in known.iter().enumerate() {
        assert!(!known[..i].contains(form), "{form} is there twice");
    }
    for (name, text) in texts() {
        let body = text.split_once("{\n").unwrap().1;
        let is_code = |l: &&str| l.starts_with("  ") && !l.starts_with("  .");
        for line in body.lines().filter(is_code) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let form = words[words[0].starts_with('@') as usize].trim_end_matches(';');
            assert!(known.contains(&form), "{line} in {name}");
        }
    }
}

#[test]
fn a_parameter_says_which_alignment_its_accesses_need() {
    let (p, q) = (UOp::param(0, 64, DType::F32), UOp::param(1, 64, DType::F32));
    let g = special("gidx0", 16);
    let load = q.at_lanes(&(&g * &int(4)), 4).load();
    let lane = load.lane(1);
    let store = p.at(&g).store(&lane);
    let kernel = written(run(&[&load, &lane, &store])).unwrap();
    let aligns = kernel.params.iter().filter_map(|p| match p {
        Param::Buffer { align, .. } => Some(*align),
        Param::Var { .. } => None,
    });
    assert_eq!(aligns.collect::<Vec<_>>(), [4, 16]);
    assert!(text(&kernel).contains(".align 16 p1"));
}

#[test]
fn local_memory_beyond_the_static_part_is_asked_for_at_launch() {
    let store = |len: usize| {
        let (p, t) = (UOp::param(0, 1, DType::F32), local(0, len, DType::F32));
        let put = t.at(&int(0)).store(&UOp::float(1.0, DType::F32));
        let got = t.after([barrier()]).at(&int(1)).load();
        written(run(&[&put, &barrier(), &got, &p.at(&int(0)).store(&got)]))
    };
    assert_eq!(store(8192).unwrap().scratch, 0);
    let large = store(20_000).unwrap();
    assert_eq!(large.scratch, 80_000);
    assert!(text(&large).contains(".extern .shared .align 16 .b8 local[];"));
    assert!(matches!(store(60_000), Err(Error::Limit { .. })));
}

#[test]
fn what_it_has_no_instruction_for_is_an_error_that_names_it() {
    let p = UOp::param(0, 4, DType::F16);
    let load = p.at(&int(0)).load();
    let sine = load.un(frit_abi::Alu::Sin);
    let steps = run(&[&load, &sine, &p.at(&int(1)).store(&sine)]);
    let error = written(steps).unwrap_err().to_string();
    assert!(error.contains("sm_90a-h200 has no Sin on float16"), "{error}");
    // 8-bit floats are converted from sm_89 on
    let q = UOp::param(0, 4, DType::F8E4M3);
    let load = q.at(&int(0)).load();
    let cast = load.cast(DType::F32);
    let steps = run(&[&load, &cast, &UOp::param(1, 4, DType::F32).at(&int(0)).store(&cast)]);
    assert!(ptx::render(&linear(steps.clone()), &machine("L4").unwrap()).is_ok());
    assert!(ptx::render(&linear(steps), &machine("A100").unwrap()).is_err());
}

#[test]
fn faults_of_the_program_are_errors() {
    let p = UOp::param(0, 4, DType::F32);
    let load = gated_load(&p.at(&int(0)), &UOp::float(0.0, DType::F32), &UOp::boolean(true), None);
    let unknown = run(&[&p.at(&int(1)).store(&load)]);
    assert!(matches!(written(unknown), Err(Error::Malformed { .. })));
    let r = range(4, 0);
    let mut open = looped(&r, run(&[&p.at(&r).store(&UOp::float(0.0, DType::F32))]));
    open.pop();
    assert!(matches!(written(open), Err(Error::Malformed { .. })));
    let unit =
        UOp::new(Op::Matrix, DType::F32, [load.clone(), load.clone(), load.clone()], Arg::Name("mma".into()));
    let store = p.at(&int(1)).store(&unit);
    assert!(matches!(written(run(&[&load, &unit, &store])), Err(Error::Unsupported { .. })));
}
