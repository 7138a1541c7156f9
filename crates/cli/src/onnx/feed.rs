//! What a model is given: arrays, pictures, random numbers.

use super::HELP;
use frit::nn::npy;
use frit::onnx::{Element, Image, Port, Session, Size, Value};
use frit::*;
use image::imageops::FilterType;

/// What a command was told.
#[derive(Default)]
pub struct Options<'a> {
    /// Values by name; an empty name is the first input's.
    pub inputs: Vec<(&'a str, &'a str)>,
    pub wanted: Vec<(&'a str, &'a str)>,
    pub sizes: Vec<(&'a str, usize)>,
    pub device: Option<&'a str>,
    pub with: Option<&'a str>,
    pub mean: Option<[f32; 3]>,
    pub std: Option<[f32; 3]>,
    pub top: Option<usize>,
    pub labels: Option<&'a str>,
    pub width: Option<i64>,
    pub rtol: Option<f64>,
    pub atol: Option<f64>,
    pub bench: bool,
    /// Words that are no options.
    pub rest: Vec<&'a str>,
}

impl Options<'_> {
    pub fn has_picture(&self) -> bool {
        self.inputs.iter().any(|(_, file)| is_picture(file))
    }
}

/// Options of a command that takes nothing else.
pub fn options<'a>(words: &[&'a str]) -> std::result::Result<Options<'a>, String> {
    let o = options_and_rest(words)?;
    match o.rest.first() {
        Some(word) => Err(format!("{word} is no option\n\n{HELP}")),
        None => Ok(o),
    }
}

/// Options as `--name value` or `--name=value`, and other words between them.
pub fn options_and_rest<'a>(words: &[&'a str]) -> std::result::Result<Options<'a>, String> {
    let mut o = Options::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value)),
            _ => (*word, None),
        };
        let mut next =
            || value.or_else(|| words.next().copied()).ok_or_else(|| format!("{name} wants a value"));
        let pair = |text: &'a str| text.split_once('=').ok_or_else(|| format!("{text} is not NAME=VALUE"));
        fn number<T: std::str::FromStr>(text: &str) -> std::result::Result<T, String> {
            text.parse().map_err(|_| format!("{text} is not a number that fits"))
        }
        let three = |text: &str| {
            let all = text.split(',').map(number::<f32>).collect::<std::result::Result<Vec<_>, _>>()?;
            <[f32; 3]>::try_from(all).map_err(|_| format!("{text} is not three numbers R,G,B"))
        };
        match name {
            "--input" => {
                let text = next()?;
                o.inputs.push(text.split_once('=').unwrap_or(("", text)));
            }
            "--want" => o.wanted.push(pair(next()?)?),
            "--size" => {
                let (name, n) = pair(next()?)?;
                o.sizes.push((name, number(n)?));
            }
            "--device" => o.device = Some(next()?),
            "--with" => o.with = Some(next()?),
            "--mean" => o.mean = Some(three(next()?)?),
            "--std" => o.std = Some(three(next()?)?),
            "--top" => o.top = Some(number(next()?)?),
            "--labels" => o.labels = Some(next()?),
            "--width" => o.width = Some(number(next()?)?),
            "--rtol" => o.rtol = Some(number(next()?)?),
            "--atol" => o.atol = Some(number(next()?)?),
            "--bench" if value.is_none() => o.bench = true,
            other if !other.starts_with("--") => o.rest.push(word),
            other => return Err(format!("there is no option {other}\n\n{HELP}")),
        }
    }
    Ok(o)
}

/// A value for each input that needs one or was given one.
pub fn feeds(model: &Session, o: &Options) -> Result<Vec<(String, Value)>> {
    let first = model.inputs().first().map_or("", |p| p.name.as_str());
    let given: Vec<(&str, &str)> =
        o.inputs.iter().map(|(name, file)| (if name.is_empty() { first } else { *name }, *file)).collect();
    if let Some((name, _)) = given.iter().find(|(name, _)| model.inputs().iter().all(|p| p.name != *name)) {
        let known: Vec<&str> = model.inputs().iter().map(|p| p.name.as_str()).collect();
        return wrong(format!("no input {name:?}, the model has {}", known.join(", ")));
    }
    let mut feeds = vec![];
    for port in model.inputs() {
        let file = given.iter().find(|(name, _)| *name == port.name).map(|(_, file)| *file);
        if file.is_some() || !port.has_default {
            feeds.push((port.name.clone(), feed(port, file.unwrap_or("random"), o)?));
        }
    }
    Ok(feeds)
}

fn wrong<T>(what: String) -> Result<T> {
    Err(Error::elsewhere("onnx", what))
}

fn is_picture(file: &str) -> bool {
    let ending = file.rsplit_once('.').map(|(_, e)| e.to_ascii_lowercase());
    matches!(ending.as_deref(), Some("png" | "jpg" | "jpeg"))
}

/// A model, with the sizes that were said.
pub fn load(path: &str, o: &Options) -> Result<Session> {
    let model = Session::load(path)?.with_images(|bytes| {
        let decoded =
            image::load_from_memory(bytes).map_err(|e| Error::elsewhere("onnx", e.to_string()))?.to_rgb8();
        let (width, height) = (decoded.width() as usize, decoded.height() as usize);
        Ok(Image { height, width, rgb: decoded.into_raw() })
    });
    model.with_sizes(o.sizes.iter().copied())
}

fn feed(port: &Port, file: &str, o: &Options) -> Result<Value> {
    if file != "random" && !is_picture(file) {
        return npy::load(file).map(Value::from);
    }
    let (Some(element), Some(dims)) = (port.element, &port.dims) else {
        return wrong(format!("input {:?} is no tensor of a known shape: give it an array", port.name));
    };
    if file != "random" {
        return picture(file, port, element, dims, o).map(|t| Value::Tensor(t, element));
    }
    let size = |s: &Size| match s {
        Size::Number(n) => *n,
        Size::Name(_) | Size::Any => 1,
    };
    let dims: Vec<usize> = dims.iter().map(size).collect();
    let d = element.dtype();
    let t = if d.is_float() { Tensor::rand(dims) } else { Tensor::randint(0, 2, dims) };
    t.cast(d).realize().map(|t| Value::Tensor(t, element)).map_err(|e| e.within(Element::name(element)))
}

/// A picture as an input wants it: its middle, in the input's size, or in its own where the input takes any.
fn picture(file: &str, port: &Port, element: Element, dims: &[Size], o: &Options) -> Result<Tensor> {
    let is_last = dims.last() == Some(&Size::Number(3));
    let channels = if is_last { dims.get(3) } else { dims.get(1) };
    if dims.len() != 4 || !matches!(channels, Some(Size::Number(1 | 3))) {
        return wrong(format!("input {:?} takes no picture: {port}", port.name));
    }
    let opened = image::open(file).map_err(|e| Error::elsewhere("onnx", format!("{file}: {e}")))?;
    let at = if is_last { 1 } else { 2 };
    let side = |s: &Size, own: u32| match s {
        Size::Number(n) => *n as u32,
        Size::Name(_) | Size::Any => own,
    };
    let (h, w) = (side(&dims[at], opened.height()), side(&dims[at + 1], opened.width()));
    let fitted = opened.resize_to_fill(w, h, FilterType::Triangle).to_rgb8();
    let n = if *channels.unwrap_or(&Size::Any) == Size::Number(1) { 1 } else { 3 };
    let x = Tensor::from_slice(fitted.as_raw()).reshape([1, h as usize, w as usize, 3]);
    let x = if n == 1 { x.float().mean(keepdim(-1)) } else { x };
    let x = if element.dtype().is_float() {
        let mean = Tensor::from_slice(&o.mean.unwrap_or([0.485, 0.456, 0.406])[..n]);
        let std = Tensor::from_slice(&o.std.unwrap_or([0.229, 0.224, 0.225])[..n]);
        (x.float() / 255.0 - mean) / std
    } else {
        x
    };
    let x = if is_last { x } else { x.movedim(-1, 1) };
    x.cast(element.dtype()).contiguous().realize()
}
