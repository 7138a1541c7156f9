//! What is in a picture: MobileNetV2 over the classes of ImageNet.
//!
//! ```text
//! cargo run --release --example classify                 # a cat that comes along
//! cargo run --release --example classify -- PICTURE
//! ```

mod models;

use frit::onnx::Session;
use models::*;

fn main() -> Outcome<()> {
    let [model, labels, cat] = files(["mobilenetv2.onnx", "imagenet.txt", "cat.png"]);
    let picture = argument_or(cat);
    // the middle, as the net was trained
    let image = image::open(&picture)?.resize_to_fill(256, 256, image::imageops::FilterType::Triangle);
    let image = image.crop_imm(16, 16, 224, 224).to_rgb8();
    let (mean, std) = IMAGENET;
    let scores = first(&Session::load(model)?, pixels(&image, 224, 224, mean, std))?;
    let chances = scores.flatten(0, -1).softmax(0).to_vec::<f32>()?;
    let labels = std::fs::read_to_string(labels)?;
    let mut order: Vec<(f32, &str)> = chances.into_iter().zip(labels.lines()).collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0));
    println!("{}", picture.display());
    for (chance, label) in &order[..5] {
        println!("{:6.1} %  {label}", chance * 100.0);
    }
    Ok(())
}
