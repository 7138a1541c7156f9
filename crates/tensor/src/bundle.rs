//! Tensors in some arrangement: what a Jit takes and gives.

use crate::error::Error;
use crate::tensor::Tensor;

/// Tensors in some structure: what a Jit takes and gives. A tensor, a tuple, an array or a list of such, or nothing.
pub trait Bundle: Sized {
    /// Add its tensors to the list, in order, and say how they were arranged.
    fn take_apart(self, into: &mut Vec<Tensor>) -> Form;
    /// Arrange tensors again.
    fn put_together(form: &Form, from: &mut std::vec::IntoIter<Tensor>) -> Self;
}

/// How tensors are arranged in a [`Bundle`].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Form {
    /// A tensor.
    One,
    /// Several.
    Many(Vec<Form>),
}

impl Form {
    pub(crate) fn part(&self, i: usize) -> &Form {
        match self {
            Form::Many(parts) => parts.get(i).unwrap_or(&Form::One),
            Form::One => self,
        }
    }
    pub(crate) fn len(&self) -> usize {
        match self {
            Form::Many(parts) => parts.len(),
            Form::One => 1,
        }
    }
    /// How many tensors there are.
    pub(crate) fn tensors(&self) -> usize {
        match self {
            Form::Many(parts) => parts.iter().map(Form::tensors).sum(),
            Form::One => 1,
        }
    }
    /// As numbers: 0 for a tensor, else one more than how many there are, then each.
    pub(crate) fn write(&self, into: &mut Vec<u64>) {
        match self {
            Form::One => into.push(0),
            Form::Many(parts) => {
                into.push(parts.len() as u64 + 1);
                parts.iter().for_each(|p| p.write(into));
            }
        }
    }
    pub(crate) fn read(from: &mut std::vec::IntoIter<u64>, depth: usize) -> Option<Form> {
        match from.next()? {
            0 => Some(Form::One),
            n if depth < 16 && n as usize <= from.len() + 1 => {
                (1..n).map(|_| Form::read(from, depth + 1)).collect::<Option<_>>().map(Form::Many)
            }
            _ => None,
        }
    }
}

fn missing() -> Tensor {
    Tensor::failed(Error::elsewhere("jit", "there are fewer tensors than before"))
}

impl Bundle for Tensor {
    fn take_apart(self, into: &mut Vec<Tensor>) -> Form {
        into.push(self);
        Form::One
    }
    fn put_together(_: &Form, from: &mut std::vec::IntoIter<Tensor>) -> Tensor {
        from.next().unwrap_or_else(missing)
    }
}
impl Bundle for () {
    fn take_apart(self, _: &mut Vec<Tensor>) -> Form {
        Form::Many(vec![])
    }
    fn put_together(_: &Form, _: &mut std::vec::IntoIter<Tensor>) {}
}
impl<B: Bundle> Bundle for Vec<B> {
    fn take_apart(self, into: &mut Vec<Tensor>) -> Form {
        Form::Many(self.into_iter().map(|b| b.take_apart(into)).collect())
    }
    fn put_together(form: &Form, from: &mut std::vec::IntoIter<Tensor>) -> Vec<B> {
        (0..form.len()).map(|i| B::put_together(form.part(i), from)).collect()
    }
}
impl<B: Bundle, const N: usize> Bundle for [B; N] {
    fn take_apart(self, into: &mut Vec<Tensor>) -> Form {
        Form::Many(self.into_iter().map(|b| b.take_apart(into)).collect())
    }
    fn put_together(form: &Form, from: &mut std::vec::IntoIter<Tensor>) -> [B; N] {
        std::array::from_fn(|i| B::put_together(form.part(i), from))
    }
}
macro_rules! tuples {
    ($(($($name:ident $i:tt),+);)*) => { $(
        impl<$($name: Bundle),+> Bundle for ($($name,)+) {
            fn take_apart(self, into: &mut Vec<Tensor>) -> Form {
                Form::Many(vec![$(self.$i.take_apart(into)),+])
            }
            fn put_together(form: &Form, from: &mut std::vec::IntoIter<Tensor>) -> Self {
                ($($name::put_together(form.part($i), from),)+)
            }
        }
    )* };
}
tuples! {
    (A 0);
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, E 4);
    (A 0, B 1, C 2, D 3, E 4, F 5);
}
