//! The head of a C source: the types and the small inline functions that its body uses, each once.
//!
//! Nothing is included and nothing is called that is not inlined, so the object needs no library. What one compiler
//! has and another has not is settled by the preprocessor inside these functions; the body is the same for all.

use super::dialect::Dialect;
use super::types::{int_literal, mask, scalar};
use frit_abi::DType;
use std::collections::{BTreeSet, HashSet};

/// Collects what the body uses.
pub struct Prelude<'a> {
    dialect: &'a Dialect,
    scalars: BTreeSet<DType>,
    vectors: BTreeSet<(DType, usize)>,
    unaligned: BTreeSet<(DType, usize)>,
    functions: Vec<(String, String)>,
    seen: HashSet<String>,
}

impl<'a> Prelude<'a> {
    /// An empty one.
    pub fn new(dialect: &'a Dialect) -> Prelude<'a> {
        let (vectors, unaligned) = Default::default();
        let (scalars, functions, seen) = Default::default();
        Prelude { dialect, scalars, vectors, unaligned, functions, seen }
    }
    /// The head as text.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for &d in &self.scalars {
            if let Some(name) = (self.dialect.element)(d) {
                out += &format!("typedef {name} {};\n", scalar(d));
            }
        }
        if !self.vectors.is_empty() {
            // every function here is inlined: how vectors would be passed does not matter
            out += "#pragma GCC diagnostic ignored \"-Wpsabi\"\n";
        }
        for &(d, n) in &self.vectors {
            let (s, bytes) = (scalar(d), d.size() * n);
            out += &format!("typedef {s} {s}x{n} __attribute__((vector_size({bytes})));\n");
        }
        for &(d, n) in &self.unaligned {
            let (s, bytes) = (scalar(d), d.size() * n);
            out += &format!(
                "typedef {s} {s}x{n}_any __attribute__((vector_size({bytes}), aligned({}), may_alias));\n",
                d.size()
            );
        }
        if !self.functions.is_empty() {
            out += &format!("#define INLINE {}\n", self.dialect.inline);
        }
        for (name, text) in &self.functions {
            // several kernels may be compiled as one text
            out += &format!("#ifndef HAS_{name}\n#define HAS_{name}\n{text}#endif\n");
        }
        out
    }
    /// The C type of a scalar or a vector.
    pub fn ty(&mut self, d: DType, lanes: usize) -> String {
        self.scalars.insert(if d == DType::Index { DType::I64 } else { d });
        if lanes == 1 {
            return scalar(d).into();
        }
        self.vectors.insert((d, lanes));
        format!("{}x{lanes}", scalar(d))
    }
    fn define(&mut self, name: &str, text: impl FnOnce(&mut Self) -> String) {
        if self.seen.insert(name.into()) {
            let text = text(self);
            self.functions.push((name.into(), text));
        }
    }

    /// A vector with one value in all lanes.
    pub fn all(&mut self, d: DType, n: usize) -> String {
        let (v, s) = (self.ty(d, n), scalar(d));
        let name = format!("{v}_all");
        // minus zero, not plus: -0.0 + 0.0 is 0.0
        self.define(&name, |_| format!("INLINE {v} {name}({s} x) {{ return x - ({v}){{0}}; }}\n"));
        name
    }
    /// `(mask, a, b)`: a where the mask is set, else b.
    pub fn select(&mut self, d: DType, n: usize) -> String {
        let (v, m) = (self.ty(d, n), self.ty(mask(d), n));
        let name = format!("where_{v}");
        let text = format!(
            "INLINE {v} {name}({m} c, {v} a, {v} b) {{ return ({v})((c & ({m})a) | (~c & ({m})b)); }}\n"
        );
        self.define(&name, |_| text);
        name
    }
    /// Part `k` of a vector cut in equal parts.
    pub fn part(&mut self, d: DType, n: usize, parts: usize) -> String {
        let (v, p) = (self.ty(d, n), self.ty(d, n / parts));
        let name = format!("part_{v}_{parts}");
        let text = format!(
            "INLINE {p} {name}({v} x, int k) {{ union {{ {v} all; {p} part[{parts}]; }} u = {{x}}; return u.part[k]; }}\n"
        );
        self.define(&name, |_| text);
        name
    }
    /// Two vectors of `n` lanes side by side.
    pub fn join(&mut self, d: DType, n: usize) -> String {
        let (v, p) = (self.ty(d, 2 * n), self.ty(d, n));
        let name = format!("join_{v}");
        let lanes: Vec<String> = (0..2 * n).map(|i| i.to_string()).collect();
        let text = format!(
            "INLINE {v} {name}({p} a, {p} b) {{ return __builtin_shufflevector(a, b, {}); }}\n",
            lanes.join(", ")
        );
        self.define(&name, |_| text);
        name
    }
    /// A vector from anywhere in memory.
    pub fn load(&mut self, d: DType, n: usize) -> String {
        let v = self.ty(d, n);
        self.unaligned.insert((d, n));
        let name = format!("load_{v}");
        let text = format!("INLINE {v} {name}(const {} *p) {{ return *(const {v}_any *)p; }}\n", scalar(d));
        self.define(&name, |_| text);
        name
    }
    /// A vector to anywhere in memory.
    pub fn store(&mut self, d: DType, n: usize) -> String {
        let v = self.ty(d, n);
        self.unaligned.insert((d, n));
        let name = format!("store_{v}");
        let text = format!("INLINE void {name}({} *p, {v} x) {{ *({v}_any *)p = x; }}\n", scalar(d));
        self.define(&name, |_| text);
        name
    }
    /// The lanes whose gate is set from memory, the others from `alt`.
    pub fn load_if(&mut self, d: DType, n: usize) -> String {
        let (v, m) = (self.ty(d, n), self.ty(mask(d), n));
        let name = format!("load_{v}_if");
        let lanes: Vec<String> = (0..n).map(|k| format!("g[{k}] ? p[{k}] : alt[{k}]")).collect();
        let plain = format!("  return ({v}){{{}}};\n", lanes.join(", "));
        let body = match masked(d, n) {
            Some((_, size, letters, to_mask)) => format!(
                "#if defined __AVX512DQ__\n  return ({v})__builtin_ia32_load{letters}{size}_mask((const void *)p, alt, {to_mask}(g));\n#else\n{plain}#endif\n"
            ),
            None => plain,
        };
        let text = format!("INLINE {v} {name}(const {} *p, {m} g, {v} alt) {{\n{body}}}\n", scalar(d));
        self.define(&name, |_| text);
        name
    }
    /// The lanes whose gate is set to memory.
    pub fn store_if(&mut self, d: DType, n: usize) -> String {
        let (v, m) = (self.ty(d, n), self.ty(mask(d), n));
        let name = format!("store_{v}_if");
        let plain: String = (0..n).map(|k| format!("  if (g[{k}]) p[{k}] = x[{k}];\n")).collect();
        let body = match masked(d, n) {
            Some((_, size, letters, to_mask)) => format!(
                "#if defined __AVX512DQ__\n  __builtin_ia32_store{letters}{size}_mask((void *)p, x, {to_mask}(g));\n#else\n{plain}#endif\n"
            ),
            None => plain,
        };
        let text = format!("INLINE void {name}({} *p, {m} g, {v} x) {{\n{body}}}\n", scalar(d));
        self.define(&name, |_| text);
        name
    }
    /// The same bits as another type; for scalars, where a C cast would convert.
    pub fn bits(&mut self, from: DType, to: DType) -> String {
        let (a, b) = (self.ty(from, 1), self.ty(to, 1));
        let name = format!("{a}_bits_{b}");
        let text =
            format!("INLINE {b} {name}({a} x) {{ union {{ {a} from; {b} to; }} u = {{x}}; return u.to; }}\n");
        self.define(&name, |_| text);
        name
    }
    /// `a * b + c` rounded once.
    pub fn fma(&mut self, d: DType, n: usize) -> String {
        if let Some(own) = (self.dialect.function)("fma", d).filter(|_| n == 1) {
            return own.into();
        }
        let (v, f) = (self.ty(d, n), if d == DType::F32 { "f" } else { "" });
        let name = format!("fma_{v}");
        let kind = if d == DType::F32 { "ps" } else { "pd" };
        let native = match n * d.size() {
            64 => Some(format!(
                "#if defined __AVX512F__ && !defined __clang__\n  return __builtin_ia32_vfmadd{kind}512_mask(a, b, c, -1, 4);\n"
            )),
            32 => Some(format!(
                "#if defined __FMA__ && !defined __clang__\n  return __builtin_ia32_vfmadd{kind}256(a, b, c);\n"
            )),
            16 => Some(format!(
                "#if defined __FMA__ && !defined __clang__\n  return __builtin_ia32_vfmadd{kind}(a, b, c);\n"
            )),
            _ => None,
        };
        let lane = format!(
            "  for (int i = 0; i < {n}; i++) c[i] = __builtin_fma{f}(a[i], b[i], c[i]);\n  return c;\n"
        );
        let text =
            ladder(&format!("INLINE {v} {name}({v} a, {v} b, {v} c)"), native, "fma", "a, b, c", &lane);
        self.define(&name, |_| text);
        name
    }
    /// `sqrt`, `floor`, `trunc` or `round` (to even), inline.
    pub fn rounding(&mut self, what: &str, d: DType, n: usize) -> String {
        if let Some(own) = (self.dialect.function)(what, d).filter(|_| n == 1) {
            return own.into();
        }
        let v = self.ty(d, n);
        let name = format!("{what}_{v}");
        let (kind, one) = if d == DType::F32 { ("ps", "ss") } else { ("pd", "sd") };
        let mode = match what {
            "round" => 8, // nearest even, no exceptions
            "floor" => 9,
            _ => 11,
        };
        if n == 1 {
            let text = self.rounding_scalar(what, d, one);
            self.define(&name, |_| text);
            return name;
        }
        let lane = self.rounding(what, d, 1);
        let sqrt = what == "sqrt";
        let native = match n * d.size() {
            64 if sqrt => Some(format!(
                "#if defined __AVX512F__ && !defined __clang__\n  return __builtin_ia32_sqrt{kind}512_mask(x, x, -1, 4);\n"
            )),
            32 if sqrt => Some(format!("#if defined __AVX__\n  return __builtin_ia32_sqrt{kind}256(x);\n")),
            16 if sqrt => Some(format!("#if defined __SSE2__\n  return __builtin_ia32_sqrt{kind}(x);\n")),
            64 => Some(format!(
                "#if defined __AVX512F__\n  return __builtin_ia32_rndscale{kind}_mask(x, {mode}, x, -1, 4);\n"
            )),
            32 => Some(format!("#if defined __AVX__\n  return __builtin_ia32_round{kind}256(x, {mode});\n")),
            16 => Some(format!("#if defined __SSE4_1__\n  return __builtin_ia32_round{kind}(x, {mode});\n")),
            _ => None,
        };
        let elementwise = if what == "round" { "roundeven" } else { what };
        let loop_ = format!("  for (int i = 0; i < {n}; i++) x[i] = {lane}(x[i]);\n  return x;\n");
        let text = ladder(&format!("INLINE {v} {name}({v} x)"), native, elementwise, "x", &loop_);
        self.define(&name, |_| text);
        name
    }
    fn rounding_scalar(&mut self, what: &str, d: DType, one: &str) -> String {
        let s = self.ty(d, 1);
        let lanes = 16 / d.size();
        let f = if d == DType::F32 { "f" } else { "" };
        if what == "sqrt" {
            // the builtin of the C library's name may call it, to set errno
            let v = self.ty(d, lanes);
            return format!(
                "INLINE {s} sqrt_{s}({s} x) {{\n#if defined __SSE2__\n  return __builtin_ia32_sqrt{one}(({v}){{x}})[0];\n#else\n  return __builtin_sqrt{f}(x);\n#endif\n}}\n"
            );
        }
        let builtin = if what == "round" { "rint" } else { what };
        // without the instruction, by hand: from 2^23 (2^52) on every float is whole
        let (limit, copy) =
            (if d == DType::F32 { "0x1p23f" } else { "0x1p52" }, format!("__builtin_copysign{f}"));
        let by_hand = match what {
            "round" => format!("{copy}(__builtin_fabs{f}(x) + {limit} - {limit}, x)"),
            "trunc" => format!("{copy}(({s})(long long)x, x)"),
            _ => format!("{copy}(({s})(long long)x - (({s})(long long)x > x), x)"),
        };
        format!(
            "INLINE {s} {what}_{s}({s} x) {{\n#if defined __SSE4_1__ || !defined __SSE2__\n  return __builtin_{builtin}{f}(x);\n#else\n  return __builtin_fabs{f}(x) < {limit} ? {by_hand} : x;\n#endif\n}}\n"
        )
    }
    /// The greater (`max`) or lesser, NaN if either is; of integers too. Where the second is known to be a `number`,
    /// one comparison is enough: it is false for NaN, and then the first is taken.
    pub fn extreme(&mut self, max: bool, number: bool, d: DType, n: usize) -> String {
        let v = self.ty(d, n);
        let (op, tail) = (if max { '>' } else { '<' }, if number { "_num" } else { "" });
        let name = format!("{}_{v}{tail}", if max { "max" } else { "min" });
        let (test, yes, no) = match (number, d.is_float(), n) {
            (true, ..) => (format!("b {op} a"), "b", "a"),
            (_, true, 1) => (format!("a != a || a {op} b"), "a", "b"),
            (_, true, _) => (format!("(a != a) | (a {op} b)"), "a", "b"),
            _ => (format!("a {op} b"), "a", "b"),
        };
        let text = if n == 1 {
            format!("INLINE {v} {name}({v} a, {v} b) {{ return {test} ? {yes} : {no}; }}\n")
        } else {
            let (m, select) = (self.ty(mask(d), n), self.select(d, n));
            format!("INLINE {v} {name}({v} a, {v} b) {{ return {select}(({m})({test}), {yes}, {no}); }}\n")
        };
        self.define(&name, |_| text);
        name
    }
    /// A float vector or scalar to integers, saturating; NaN gives 0.
    pub fn saturate(&mut self, from: DType, to: DType, n: usize) -> String {
        let (v, r) = (self.ty(from, n), self.ty(to, n));
        let name = format!("{r}_of_{}", scalar(from));
        let (lo, hi) = to.int_range().unwrap_or((0, 0));
        let f = if from == DType::F32 { "f" } else { "" };
        // the bounds as floats: hi + 1 is a power of two, lo is one or zero
        let pow = |x: i128| if x == 0 { "0".into() } else { format!("0x1p{}{f}", 127 - x.leading_zeros()) };
        let above = pow(hi + 1);
        let below = if lo == 0 { "0".into() } else { format!("-{}", pow(-lo)) };
        let (max, min) = (int_literal(hi, to), int_literal(lo, to));
        let text = if n == 1 {
            format!(
                "INLINE {r} {name}({v} x) {{ return x >= {above} ? {max} : x > {below} ? ({r})x : x != x ? 0 : {min}; }}\n"
            )
        } else {
            // lanes out of range go in as 0, so no conversion is undefined, and their bound is put in afterwards
            let (m, wide) = (mask(from), self.ty(mask(from), n));
            let through = |x: &str, p: &mut Self| match to.size() < from.size() {
                true => format!("__builtin_convertvector(__builtin_convertvector({x}, {}), {r})", p.ty(m, n)),
                false => format!("__builtin_convertvector({x}, {r})"),
            };
            let value = through(&format!("({v})(({wide})x & in)"), self);
            let rm = self.ty(mask(to), n);
            let cv = |x: &str| match to.size() == from.size() {
                true => format!("({rm})({x})"),
                false => format!("__builtin_convertvector({x}, {rm})"),
            };
            let (all_max, all_min) = (self.all(to, n), self.all(to, n));
            let low =
                if lo == 0 { String::new() } else { format!(" | (({r}){} & {all_min}({min}))", cv("under")) };
            let under =
                if lo == 0 { String::new() } else { format!("  {wide} under = ({wide})(x < {below});\n") };
            format!(
                "INLINE {r} {name}({v} x) {{\n  {wide} over = ({wide})(x >= {above}), in = ({wide})(x >= {below}) & ~over;\n{under}  return {value} | (({r}){} & {all_max}({max})){low};\n}}\n",
                cv("over"),
            )
        };
        self.define(&name, |_| text);
        name
    }
}

/// The three ways to a vector function: gcc's builtin of that size, clang's for any size, lane by lane.
fn ladder(head: &str, native: Option<String>, elementwise: &str, args: &str, lanes: &str) -> String {
    let first = match native {
        Some(n) => format!("{n}#elif"),
        None => "#if".into(),
    };
    format!(
        "{head} {{\n{first} defined __clang__ && __has_builtin(__builtin_elementwise_{elementwise})\n  return __builtin_elementwise_{elementwise}({args});\n#else\n{lanes}#endif\n}}\n"
    )
}

/// The masked moves of AVX-512: lane count, vector bits, the name's middle, and the mask from a vector.
fn masked(d: DType, n: usize) -> Option<(usize, usize, &'static str, &'static str)> {
    match (d, n * d.size()) {
        (DType::F32, 64) => Some((16, 512, "ups", "__builtin_ia32_cvtd2mask512")),
        (DType::F64, 64) => Some((8, 512, "upd", "__builtin_ia32_cvtq2mask512")),
        (DType::I32, 64) => Some((16, 512, "dqusi", "__builtin_ia32_cvtd2mask512")),
        _ => None,
    }
}
