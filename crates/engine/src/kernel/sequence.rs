//! Several programs that are launched as one kernel.

use frit_abi::{LaunchDims, Param};
use frit_runtime::{Device, Error, Executable, Memory, Program, Resources};
use std::sync::Arc;

/// Programs that run one after the other, with memory of their own between them.
pub struct Sequence {
    device: Arc<dyn Device>,
    parts: Vec<Program>,
    /// Bytes of the workspaces, which are the last parameters of each part.
    workspaces: Vec<usize>,
    params: Vec<Param>,
}

impl Sequence {
    /// Of the same parameters, of which some have more: the last buffers are workspaces, which are no parameters of the whole.
    pub fn new(device: Arc<dyn Device>, parts: Vec<Program>, workspaces: Vec<usize>) -> Sequence {
        let most = parts.iter().map(|(p, _)| p.params()).max_by_key(|p| p.len());
        let mut params: Vec<Param> = most.map_or(vec![], <[Param]>::to_vec);
        for (part, _) in &parts {
            for (all, one) in params.iter_mut().zip(part.params()) {
                if let (Param::Buffer { written, .. }, Param::Buffer { written: true, .. }) = (all, one) {
                    *written = true;
                }
            }
        }
        for _ in &workspaces {
            if let Some(last) = params.iter().rposition(|p| matches!(p, Param::Buffer { .. })) {
                params.remove(last);
            }
        }
        Sequence { device, parts, workspaces, params }
    }
    /// Each part with its arguments. Devices keep freed memory, so a workspace costs nothing the second time.
    fn each(
        &self,
        bufs: &[&Memory],
        mut f: impl FnMut(&dyn Executable, &[&Memory], LaunchDims) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let work: Result<Vec<Memory>, Error> =
            self.workspaces.iter().map(|n| self.device.alloc(*n)).collect();
        let work = work?;
        let all: Vec<&Memory> = bufs.iter().copied().chain(&work).collect();
        // what is before another workspace was asked for does not know it
        self.parts.iter().try_for_each(|(part, dims)| f(&**part, &all[..part.buffers()], *dims))
    }
}

impl Executable for Sequence {
    fn launch(&self, bufs: &[&Memory], vars: &[i64], _: LaunchDims) -> Result<(), Error> {
        self.each(bufs, |part, bufs, dims| part.launch(bufs, vars, dims))
    }
    fn name(&self) -> &str {
        self.parts.first().map_or("", |(p, _)| p.name())
    }
    fn params(&self) -> &[Param] {
        &self.params
    }
    fn programs(&self) -> Option<(&[Program], &[usize])> {
        Some((&self.parts, &self.workspaces))
    }
    fn resources(&self) -> Option<Resources> {
        let each = self.parts.iter().map(|(p, _)| p.resources());
        let most = |a: Resources, b: Resources| Resources {
            registers: a.registers.max(b.registers),
            spilled: a.spilled.max(b.spilled),
        };
        each.collect::<Option<Vec<_>>>()?.into_iter().reduce(most)
    }
    fn disassembly(&self) -> Result<String, Error> {
        self.parts.iter().map(|(p, _)| p.disassembly()).collect()
    }
}
