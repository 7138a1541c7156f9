//! Kernel graph -> code: lower with opts from somewhere, render; shown, where that is asked for.

use super::choice::Choice;
use crate::record::Compiling;
use crate::{Error, config};
use frit_abi::record::span;
use frit_abi::{Kernel, Target};
use frit_codegen::{Lowered, Opts, Program};
use frit_uop::{Arg, UOp};
use std::time::Duration;

/// Lower and render one kernel: its programs, and the code of each.
pub fn compile(ast: &UOp, target: &Target, choice: &Choice) -> Result<(Lowered, Vec<Kernel>), Error> {
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
    let (mut rows, name) = (String::new(), kernel_name(ast));
    let shown = config::shown_passes(name)?;
    let recorded = Compiling::begin(ast, name, target);
    let mut watch = |pass: &'static str, program: &Program, time: Duration| {
        if debug >= 3 {
            rows += &format!("{:>10.3} ms  {pass}\n", time.as_secs_f64() * 1e3);
        }
        recorded.pass(pass, program, time);
        if shown.iter().any(|p| p == pass) {
            eprintln!("{name} after {pass}:\n{program}");
        }
    };
    let check = config::spec()? > 0;
    let lowered = {
        let _span = span("lower", name);
        frit_uop::rewrite::recorded(|| frit_codegen::lower_and_watch(ast, target, opts, check, &mut watch))
    };
    let lowered = lowered.map_err(|e| error(format!("{e} (opts {opts:?})")))?;
    recorded.opts(&lowered.opts);
    if debug >= 3 {
        let applied: Vec<String> = lowered.opts.iter().map(|o| o.to_string()).collect();
        eprintln!("passes over {name}:\n{rows}opts of {name}: {}", applied.join(", "));
    }
    if debug >= 5 {
        eprintln!("program {name}:\n{lowered}");
    }
    let mut kernels = vec![];
    let _span = span("render", name);
    for linear in &lowered.programs {
        let mut source = String::new();
        let kernel = frit_render::render_and_watch(linear, target, &mut |pass, program| {
            if debug >= 4 || recorded.wants_source() {
                source = program.to_string();
            }
            if recorded.wants_source() {
                recorded.source(&linear.name, pass, &source);
            }
        });
        kernels.push(kernel.map_err(|e| error(e.to_string()))?);
        if debug >= 4 {
            eprintln!("source of {}:\n{source}", linear.name);
        }
    }
    Ok((lowered, kernels))
}

fn kernel_name(ast: &UOp) -> &str {
    match &ast.arg {
        Arg::Name(n) => n,
        _ => "?",
    }
}
