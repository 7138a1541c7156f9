//! Long sums in slices that a second program adds up.

use crate::kernels::{Case, conv, matmul};
use crate::run::check;
use frit_abi::Target;
use frit_abi::target::Isa;
use frit_codegen::{Opt, Opts, lower, plan};
use frit_uop::{AxisKind, DType, UOp};

fn case(sink: UOp) -> Case {
    Case { name: "split", sink, vars: vec![], exact: true }
}

#[test]
fn slices_add_up_to_the_sum() {
    let target = Target::interp();
    for n in [2, 3, 6] {
        check(&case(matmul(5, 8, 24)), &target, &[Opt::SplitReduce { n }]);
        let vector = Opt::Split { axis: 2, n: 4, kind: AxisKind::Vector, inner: true };
        check(&case(matmul(5, 8, 24)), &target, &[Opt::SplitReduce { n }, vector]);
        // the epilogue is in the second program
        check(&case(conv(2, 6, 4, 5, 3)), &target, &[Opt::SplitReduce { n }]);
    }
}

#[test]
fn what_cannot_be_cut_says_so() {
    let fails = |sink: &UOp, opts: &[Opt], why: &str| {
        let e = lower(sink, &Target::interp(), Opts::List(opts)).unwrap_err().to_string();
        assert!(e.contains(why), "{e}");
    };
    let (cut, pad) = (Opt::SplitReduce { n: 5 }, Opt::Pad { axis: 0, n: 3 });
    fails(&matmul(4, 4, 24), std::slice::from_ref(&cut), "divides");
    fails(&crate::kernels::softmax(4, 10), std::slice::from_ref(&cut), "divides");
    fails(&matmul(4, 4, 25), &[pad, cut], "before anything else");
}

#[test]
fn few_results_of_a_long_sum_are_cut() {
    let target = Target::native(Isa::Avx512, 2, [32 << 10, 1 << 20, 32 << 20]);
    let lowered = lower(&matmul(64, 64, 1 << 17), &target, Opts::Heuristic).unwrap();
    let [sliced, merged] = &lowered.programs[..] else { panic!("{} programs", lowered.programs.len()) };
    let Opt::SplitReduce { n } = lowered.opts[0] else { panic!("{:?}", lowered.opts) };
    assert_eq!(lowered.workspace, n * 64 * 64 * DType::F32.size());
    assert_eq!((sliced.params.len(), merged.params.len()), (4, 4));
    assert_eq!(
        (&sliced.written[..], &merged.written[..]),
        (&[false, false, false, true][..], &[true, false, false, false][..])
    );
    assert!(lowered.to_string().contains(&format!("of 2, workspace {}\n", lowered.workspace)));
    assert!(plan(&matmul(64, 64, 1 << 17), &target, &lowered.opts).is_ok());
    // as many results as a square has are not
    for (m, n, k) in [(1024, 1024, 1024), (64, 64, 2048), (4096, 4096, 1 << 14)] {
        assert_eq!(lower(&matmul(m, n, k), &target, Opts::Heuristic).unwrap().programs.len(), 1);
    }
}
