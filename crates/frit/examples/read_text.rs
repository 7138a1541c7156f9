//! Text found and read in a picture: one net of PP-OCRv6 says where lines are, the other what is written there.
//!
//! ```text
//! cargo run --release --example read_text                 # a page that comes along; lines are marked in read_text.png
//! cargo run --release --example read_text -- PICTURE
//! ```

mod models;

use frit::onnx::Session;
use frit::onnx::proto::{Model, parse};
use image::{Rgb, RgbImage};
use models::*;

/// Both nets take numbers from -1 to 1.
const HALF: [f32; 3] = [0.5; 3];

/// A line of text: left, top, right, bottom.
#[derive(Clone, Copy)]
struct Place([u32; 4]);

/// What both nets are shown: blue first.
fn swapped(image: &RgbImage) -> RgbImage {
    RgbImage::from_fn(image.width(), image.height(), |x, y| {
        let [r, g, b] = image.get_pixel(x, y).0;
        Rgb([b, g, r])
    })
}

/// Where lines are: connected places that the net holds for text, made as large as the letters.
fn find(model: &Session, image: &RgbImage) -> Outcome<Vec<Place>> {
    let grow = (736.0 / image.width().min(image.height()) as f32).max(1.0);
    let side = |n: u32| ((n as f32 * grow / 32.0).round() as u32).max(1) * 32;
    let (w, h) = (side(image.width()), side(image.height()));
    let chance = first(model, pixels(image, w, h, HALF, HALF))?.to_vec::<f32>()?;
    let (w, h) = (w as usize, h as usize);
    let mut seen = vec![false; w * h];
    let mut places = vec![];
    for start in 0..w * h {
        if seen[start] || chance[start] <= 0.3 {
            continue;
        }
        let (mut stack, mut members) = (vec![start], vec![]);
        seen[start] = true;
        while let Some(i) = stack.pop() {
            members.push(i);
            let (x, y) = (i % w, i / w);
            let around = [
                (x > 0, i.wrapping_sub(1)),
                (x + 1 < w, i + 1),
                (y > 0, i.wrapping_sub(w)),
                (y + 1 < h, i + w),
            ];
            for (is_inside, j) in around {
                if is_inside && !seen[j] && chance[j] > 0.3 {
                    seen[j] = true;
                    stack.push(j);
                }
            }
        }
        let sure = members.iter().map(|i| chance[*i]).sum::<f32>() / members.len() as f32;
        let ends = |f: &dyn Fn(usize) -> usize| {
            let all = members.iter().map(|i| f(*i) as f32);
            all.fold((f32::MAX, 0.0), |(lo, hi): (f32, f32), v| (lo.min(v), hi.max(v + 1.0)))
        };
        let ((left, right), (top, bottom)) = (ends(&|i| i % w), ends(&|i| i / w));
        let (width, height) = (right - left, bottom - top);
        if sure < 0.5 || width.min(height) < 5.0 {
            continue;
        }
        // the net marks the middle of lines only
        let more = width * height * 1.6 / (2.0 * (width + height));
        let to = |v: f32, from: usize, all: u32| (v / from as f32 * all as f32).clamp(0.0, all as f32) as u32;
        let (iw, ih) = (image.width(), image.height());
        places.push(Place([
            to(left - more, w, iw),
            to(top - more, h, ih),
            to(right + more, w, iw),
            to(bottom + more, h, ih),
        ]));
    }
    // as one reads: lines from the top, each from the left
    places.sort_by_key(|Place([left, top, _, bottom])| ((top + bottom) / 2 / 12, *left));
    Ok(places)
}

/// What is written in a line, and how sure that is.
fn read(model: &Session, letters: &[&str], line: &RgbImage) -> Outcome<(String, f32)> {
    let width = (48.0 * line.width() as f32 / line.height().max(1) as f32).ceil().max(48.0) as u32;
    let chance = first(model, pixels(line, width, 48, HALF, HALF))?;
    let best = chance.argmax(-1).to_vec::<i32>()?;
    let sure = chance.max(-1).to_vec::<f32>()?;
    let (mut text, mut total, mut count, mut last) = (String::new(), 0.0, 0, 0);
    for (i, sure) in best.into_iter().zip(sure) {
        // nothing, or the same letter still
        if i != 0 && i != last {
            text.push_str(letters.get(i as usize - 1).unwrap_or(&" "));
            (total, count) = (total + sure, count + 1);
        }
        last = i;
    }
    Ok((text, total / count.max(1) as f32))
}

fn main() -> Outcome<()> {
    let [detector, recogniser, page] = files(["text_detector.onnx", "text_recogniser.onnx", "page.png"]);
    let picture = argument_or(page);
    let mut image = image::open(&picture)?.to_rgb8();
    let shown = swapped(&image);
    let file = std::fs::read(&recogniser)?;
    let model: Model = parse(&file)?;
    let letters = model.metadata_props.iter().find(|e| e.key == "character");
    let letters: Vec<&str> =
        letters.ok_or("the recogniser does not say which letters it knows")?.value.lines().collect();
    let (detector, recogniser) = (Session::load(detector)?, Session::load(recogniser)?);
    for Place([left, top, right, bottom]) in find(&detector, &shown)? {
        let (w, h) = (right.saturating_sub(left), bottom.saturating_sub(top));
        if w == 0 || h == 0 {
            continue;
        }
        let line = image::imageops::crop_imm(&shown, left, top, w, h).to_image();
        let (text, sure) = read(&recogniser, &letters, &line)?;
        println!("{:4.0} %  {text}", sure * 100.0);
        let edge = |x, y| x == left || x == right - 1 || y == top || y == bottom - 1;
        for (x, y) in
            (top..bottom).flat_map(|y| (left..right).map(move |x| (x, y))).filter(|(x, y)| edge(*x, *y))
        {
            image.put_pixel(x, y, Rgb([255, 0, 0]));
        }
    }
    image.save("read_text.png")?;
    Ok(())
}
