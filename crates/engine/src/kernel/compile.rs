//! Kernel graph -> code: lower with opts from somewhere, render; shown, where that is asked for.

use super::choice::Choice;
use crate::pass_log::PassLog;
use crate::record::Compiling;
use crate::{Error, config};
use frit_abi::record::span;
use frit_abi::{Kernel, Target};
use frit_codegen::{Lowered, Opt, Opts, Program};
use frit_uop::{Arg, UOp};

/// Lower and render one kernel: its programs, and the code of each.
pub fn compile(ast: &UOp, target: &Target, choice: &Choice) -> Result<(Lowered, Vec<Kernel>), Error> {
    compile_for(ast, target, choice, 0)
}

/// Compile a candidate of a search once more, for the recording, which knows it by this number.
pub fn record_candidate(ast: &UOp, target: &Target, opts: Vec<Opt>, number: u64) -> Result<(), Error> {
    compile_for(ast, target, &Choice::List(opts), number).map(drop)
}

fn compile_for(
    ast: &UOp,
    target: &Target,
    choice: &Choice,
    candidate: u64,
) -> Result<(Lowered, Vec<Kernel>), Error> {
    let debug = config::debug()?;
    let error = |message: String| Error::Compile { kernel: kernel_name(ast).into(), message };
    let random = match choice {
        Choice::Random(seed) => {
            let seed = seed ^ ast.structural_hash();
            Some(frit_codegen::random_opts(ast, target, seed, 4).map_err(|e| error(e.to_string()))?)
        }
        _ => None,
    };
    let opts = match (choice, &random) {
        (Choice::List(list), _) | (_, Some(list)) => Opts::List(list),
        _ => Opts::Heuristic,
    };
    let name = kernel_name(ast);
    let (mut log, recorded) = (PassLog::of(name)?, Compiling::begin(ast, name, target, candidate));
    let mut watch = |pass: &'static str, program: &Program, time| {
        log.after(pass, || program.to_string(), time);
        recorded.pass(pass, program, time);
    };
    let check = config::spec()? > 0;
    let lowered = {
        let _span = span("lower", name);
        frit_uop::rewrite::recorded(|| frit_codegen::lower_and_watch(ast, target, opts, check, &mut watch))
    };
    let lowered = lowered.map_err(|e| error(format!("{e} (opts {opts:?})")))?;
    recorded.opts(&lowered.opts);
    if debug >= 5 {
        eprintln!("program {name}:\n{lowered}");
    }
    let mut kernels = vec![];
    let _span = span("render", name);
    for linear in &lowered.programs {
        let mut source = String::new();
        log.begin();
        let kernel = frit_render::render_and_watch(linear, target, &mut |pass, program| {
            log.end(pass, || program.to_string());
            let is_wanted = recorded.wants_source(pass);
            if debug >= 4 || is_wanted {
                source = program.to_string();
            }
            recorded.source(&linear.name, pass, program, &source);
        });
        kernels.push(kernel.map_err(|e| error(e.to_string()))?);
        if debug >= 4 {
            eprintln!("source of {}:\n{source}", linear.name);
        }
    }
    log.print();
    if debug >= 3 {
        let applied: Vec<String> = lowered.opts.iter().map(|o| o.to_string()).collect();
        eprintln!("opts of {name}: {}", applied.join(", "));
    }
    Ok((lowered, kernels))
}

fn kernel_name(ast: &UOp) -> &str {
    match &ast.arg {
        Arg::Name(n) => n,
        _ => "?",
    }
}
