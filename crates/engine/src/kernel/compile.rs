//! Kernel graph -> code: lower with opts from somewhere, render; shown, where that is asked for.

use super::choice::Choice;
use crate::{Error, config};
use frit_abi::{Kernel, Target};
use frit_codegen::Opts;
use frit_uop::{Arg, Linear, UOp};

/// Lower and render one kernel.
pub fn compile(ast: &UOp, target: &Target, choice: &Choice) -> Result<(Linear, Kernel), Error> {
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
    let (linear, applied) = frit_codegen::lower_and_watch(ast, target, opts, config::spec()? > 0, &mut |_, _, _| {})
        .map_err(|e| error(format!("{e} (opts {opts:?})")))?;
    if debug >= 3 {
        let applied: Vec<String> = applied.iter().map(|o| o.to_string()).collect();
        eprintln!("opts of {}: {}", linear.name, applied.join(", "));
    }
    if debug >= 5 {
        eprintln!("program {}:", linear.name);
        for step in &linear.steps {
            eprintln!("  {step:?}");
        }
    }
    let mut source = String::new();
    let kernel = frit_render::render_and_watch(&linear, target, &mut |_, program| {
        if debug >= 4 {
            source = program.to_string();
        }
    });
    let kernel = kernel.map_err(|e| error(e.to_string()))?;
    if debug >= 4 {
        eprintln!("source of {}:\n{source}", linear.name);
    }
    Ok((linear, kernel))
}

fn kernel_name(ast: &UOp) -> &str {
    match &ast.arg {
        Arg::Name(n) => n,
        _ => "?",
    }
}
