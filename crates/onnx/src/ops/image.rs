//! Pictures from the bytes of their files, which a function that the session was given decodes.

use super::{Op, op};
use crate::call::{Call, Outs, fail, give};
use crate::parts::Image;
use frit_tensor::{DType, Result, Tensor};

pub(super) const OPS: &[Op] = &[op("ImageDecoder", 20, decoder)];

fn decoder(c: &Call) -> Result<Outs> {
    let format = c.text_or("pixel_format", "RGB")?;
    let Some(decode) = &c.alone()?.images else {
        return fail("the session has no function that decodes pictures: give it one by with_images");
    };
    let bytes = c.tensor(0)?.to_bytes()?;
    let Image { height, width, rgb } = decode(&bytes)?;
    if height.checked_mul(width).and_then(|n| n.checked_mul(3)) != Some(rgb.len()) {
        return fail(format!("a picture of {height} by {width} pixels in {} bytes", rgb.len()));
    }
    let picture = Tensor::from_vec(rgb, [height, width, 3]);
    give(match format {
        "RGB" => picture,
        "BGR" => picture.flip(-1),
        "Grayscale" => {
            // luma of ITU-R BT.601 in 16 bits, rounded
            let parts = picture.int() * Tensor::from_slice(&[19595, 38470, 7471]);
            (parts.sum(frit_tensor::keepdim(-1)) + (1 << 15)).rshift(16).cast(DType::U8)
        }
        other => return fail(format!("attribute \"pixel_format\" is {other:?}")),
    })
}
