//! Where loads and stores are to.

use super::Writer;
use crate::Error;
use crate::walk::Walk;
use frit_abi::bytecode::{Memory, Place};
use frit_uop::{Arg, Op, UOp};

impl Writer<'_> {
    /// The place that an access is to, and its gate.
    pub fn place(&mut self, access: &UOp) -> Result<Place, Error> {
        let address = access.src.first().ok_or_else(|| self.no_source(access, 0))?;
        let gate = access.gate().cloned();
        let site = if let Arg::Site(site) = access.arg { Some(site) } else { None };
        let place = self.at(access, address, gate.as_ref(), site)?;
        if let Memory::Buffer(slot) = place.memory
            && access.op != Op::Load
            && !self.linear.written[slot as usize]
        {
            return Err(
                self.malformed(format!("{access:?} is to parameter {slot}, which is not marked as written"))
            );
        }
        Ok(place)
    }

    /// The place that a copy is from, and its gate.
    pub fn copied(&mut self, copy: &UOp) -> Result<Place, Error> {
        let address = copy.src.get(1).ok_or_else(|| self.no_source(copy, 1))?;
        self.at(copy, address, copy.src.get(2), None)
    }

    fn at(
        &mut self,
        access: &UOp,
        address: &UOp,
        gate: Option<&UOp>,
        site: Option<u32>,
    ) -> Result<Place, Error> {
        let (buf, idx) = match address.op {
            Op::Index if address.src.len() == 2 => (&address.src[0], Some(self.value(&address.src[1])?)),
            Op::Index => return Err(self.malformed(format!("{address:?} does not have one index"))),
            _ => (address, None),
        };
        let buf = buf.behind_after();
        let memory = match buf.arg {
            Arg::Param { slot, .. } if self.linear.params.get(slot as usize) == Some(buf) => {
                Memory::Buffer(slot)
            }
            _ => *self
                .defines
                .get(buf)
                .ok_or_else(|| self.malformed(format!("{access:?} is to {buf:?}, which is not declared")))?,
        };
        if idx.is_none() && !matches!(memory, Memory::Var(_)) {
            return Err(self.malformed(format!("{access:?} is to memory without an index")));
        }
        if buf.dtype != address.dtype || (access.op == Op::Load && access.dtype != buf.dtype) {
            return Err(self.malformed(format!("{access:?} is to memory of {}", buf.dtype)));
        }
        if address.lanes() > 1 && !matches!(memory, Memory::Var(_)) {
            let bytes = address.lanes() * buf.dtype.size();
            if bytes > self.target.vector_access_bytes && self.target.vector_bytes == 0 {
                let message =
                    format!("an access of {bytes} bytes, {} allowed", self.target.vector_access_bytes);
                return Err(Error::Limit { kernel: self.program.name.clone(), message });
            }
        }
        let gate = gate.map(|g| self.value(g)).transpose()?;
        if site.is_some() && gate.is_none() {
            return Err(self.malformed(format!("{access:?} is checked but has no gate")));
        }
        let rows =
            if let Arg::Tile { lanes, stride, .. } = address.arg { Some((lanes, stride)) } else { None };
        Ok(Place { memory, idx, gate, rows, site })
    }
}
