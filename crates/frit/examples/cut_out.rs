//! A figure cut out of a picture: U2-Net-p says where it is, everything else becomes transparent.
//!
//! ```text
//! cargo run --release --example cut_out                  # an astronaut that comes along, to cut_out.png
//! cargo run --release --example cut_out -- PICTURE
//! ```

mod models;

use frit::onnx::Session;
use image::imageops::FilterType;
use image::{GrayImage, Rgba, RgbaImage};
use models::*;

/// The side of the square that the net looks at.
const SIDE: u32 = 320;

fn main() -> Outcome<()> {
    let [model, astronaut] = files(["u2netp.onnx", "astronaut.png"]);
    let picture = argument_or(astronaut);
    let image = image::open(&picture)?.to_rgb8();
    let (mean, std) = IMAGENET;
    let mask = first(&Session::load(model)?, pixels(&image, SIDE, SIDE, mean, std))?;
    let (low, high) = (mask.min(..), mask.max(..));
    let mask = ((&mask - &low) / (high - low) * 255.0).round().cast(frit::DType::U8).to_vec::<u8>()?;
    let mask = GrayImage::from_raw(SIDE, SIDE, mask).ok_or("the net gave a mask of another size")?;
    let mask = image::imageops::resize(&mask, image.width(), image.height(), FilterType::Triangle);
    let cut = RgbaImage::from_fn(image.width(), image.height(), |x, y| {
        let [r, g, b] = image.get_pixel(x, y).0;
        Rgba([r, g, b, mask.get_pixel(x, y).0[0]])
    });
    cut.save("cut_out.png")?;
    let kept =
        mask.pixels().filter(|p| p.0[0] > 127).count() as f64 / f64::from(image.width() * image.height());
    println!("{}: {:.0} % of it is the figure, see cut_out.png", picture.display(), kept * 100.0);
    Ok(())
}
