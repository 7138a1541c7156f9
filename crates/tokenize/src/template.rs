//! What a model expects around a text or a pair of texts.

/// Numbers of tokens, and which of two texts each belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoding {
    /// The tokens.
    pub ids: Vec<u32>,
    /// 0 for the first text, 1 for the second, as the file says.
    pub types: Vec<u32>,
}

pub(crate) enum Piece {
    /// Tokens, and their type.
    Tokens(Vec<u32>, u32),
    /// The first or second text, and its type.
    Text(usize, u32),
}

pub(crate) struct Template {
    pub single: Vec<Piece>,
    pub pair: Vec<Piece>,
}

impl Default for Template {
    fn default() -> Template {
        Template { single: vec![Piece::Text(0, 0)], pair: vec![Piece::Text(0, 0), Piece::Text(1, 1)] }
    }
}

impl Template {
    /// As BERT has it: a token before the first text, one after each.
    pub fn bert(start: u32, end: u32) -> Template {
        let one = |id, kind| Piece::Tokens(vec![id], kind);
        Template {
            single: vec![one(start, 0), Piece::Text(0, 0), one(end, 0)],
            pair: vec![one(start, 0), Piece::Text(0, 0), one(end, 0), Piece::Text(1, 1), one(end, 1)],
        }
    }
    pub fn single(&self, a: Vec<u32>) -> Encoding {
        fill(&self.single, &[a])
    }
    pub fn pair(&self, a: Vec<u32>, b: Vec<u32>) -> Encoding {
        fill(&self.pair, &[a, b])
    }
}

fn fill(pieces: &[Piece], texts: &[Vec<u32>]) -> Encoding {
    let mut out = Encoding::default();
    for piece in pieces {
        let (ids, kind) = match piece {
            Piece::Tokens(ids, kind) => (ids, kind),
            Piece::Text(i, kind) => (&texts[*i], kind),
        };
        out.ids.extend(ids);
        out.types.resize(out.ids.len(), *kind);
    }
    out
}
