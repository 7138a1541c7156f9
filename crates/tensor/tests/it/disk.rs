//! Files as tensors.

use frit_tensor::{DType, Device, Jit, Tensor};
use std::path::PathBuf;

/// A file that is gone when the test is over.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("frit-disk-test-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        Scratch(path)
    }
    fn device(&self) -> String {
        format!("disk:{}", self.0.display())
    }
    fn floats(&self) -> Vec<f32> {
        let bytes = std::fs::read(&self.0).unwrap();
        bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    }
    fn write(&self, numbers: &[f32]) {
        std::fs::write(&self.0, numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>()).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn counted(file: &Scratch, n: usize) -> Vec<f32> {
    let numbers: Vec<f32> = (0..n).map(|i| i as f32).collect();
    file.write(&numbers);
    numbers
}

#[test]
fn a_tensor_moved_to_a_file_is_there_at_once_and_comes_back() {
    let file = Scratch::new("moved");
    let x = Tensor::new([1.0, 2.0, 3.0]) * 2.0;
    let there = x.to(&file.device());
    assert_eq!(file.floats(), [2.0, 4.0, 6.0]);
    assert_eq!(&*there.device().unwrap(), "DISK");
    assert_eq!((there.to("CPU") + 1.0).to_vec::<f32>().unwrap(), [3.0, 5.0, 7.0]);
    assert_eq!(there.to_vec::<f32>().unwrap(), [2.0, 4.0, 6.0]);
    // a path is taken as it is written, with no device to a path
    assert_eq!(Tensor::on_disk(&file.0, DType::F32, [3]).to_vec::<f32>().unwrap(), [2.0, 4.0, 6.0]);
    // from file to file
    let other = Scratch::new("moved-Again:1");
    there.at(1..).to(&other.device()).check().unwrap();
    assert_eq!(other.floats(), [4.0, 6.0]);
}

#[test]
fn views_of_a_file_are_what_the_same_views_of_memory_are() {
    let file = Scratch::new("views");
    let numbers = counted(&file, 24);
    let disk = Tensor::on_disk(&file.0, DType::F32, [2, 3, 4]);
    let memory = Tensor::new(&numbers[..]).reshape([2, 3, 4]);
    type Look = fn(&Tensor) -> Tensor;
    let views: [(&str, Look); 16] = [
        ("whole", |x| x.clone()),
        ("row", |x| x.at(1)),
        ("rows", |x| x.at((1, 1..3))),
        ("columns", |x| x.at((1.., 1.., 1..3))),
        ("one", |x| x.at((1, 2, 3))),
        ("none", |x| x.at((.., 3..))),
        ("stepped", |x| x.reshape([24]).at(frit_tensor::step(3..20, 4))),
        ("reshaped", |x| x.at(1).reshape([4, 3]).at(1..3)),
        ("permuted", |x| x.permute([2, 0, 1])),
        ("permuted and cut", |x| x.permute([2, 0, 1]).at((1..3, 1))),
        ("ones moved", |x| x.reshape([2, 1, 12]).permute([1, 0, 2]).at((0, 1))),
        ("flipped", |x| x.flip([0, 2])),
        ("expanded", |x| x.at((.., .., 0)).reshape([1, 2, 3]).expand([2, 2, 3])),
        ("as bytes", |x| x.bitcast(DType::U8).at((1, .., 2..5))),
        ("as bits", |x| x.at(1).bitcast(DType::I32)),
        ("wider", |x| x.at((.., 1..)).at(1).bitcast(DType::F64).reshape([4])),
    ];
    for (name, view) in views {
        let (got, want) = (view(&disk), view(&memory));
        assert_eq!(got.dims().unwrap(), want.dims().unwrap(), "{name}");
        assert_eq!(got.dtype(), want.dtype(), "{name}");
        assert_eq!(got.to("CPU").to_bytes().unwrap(), want.to_bytes().unwrap(), "{name}");
        // read by whoever wants to see it, and no less lazy for that
        assert_eq!(got.realize().unwrap().to_bytes().unwrap(), want.to_bytes().unwrap(), "{name}");
        assert_eq!(&*got.device().unwrap(), "DISK", "{name}");
    }
}

#[test]
fn bytes_at_any_offset_are_seen_as_wider_elements() {
    let file = Scratch::new("odd");
    let mut bytes = vec![0xff; 3];
    bytes.extend([1.5f32, -2.0].iter().flat_map(|n| n.to_le_bytes()));
    std::fs::write(&file.0, &bytes).unwrap();
    let x = Tensor::on_disk(&file.0, DType::U8, [11]).at(3..).bitcast(DType::F32);
    assert_eq!(x.to("CPU").to_vec::<f32>().unwrap(), [1.5, -2.0]);
    x.at(1).assign(4.0).check().unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap(), [1.5, 4.0]);
    assert_eq!(std::fs::read(&file.0).unwrap()[7..], 4.0f32.to_le_bytes());
}

#[test]
fn only_the_part_that_is_needed_is_read() {
    let file = Scratch::new("part");
    let huge = Tensor::on_disk(&file.0, DType::F32, [1 << 20, 1 << 12]);
    huge.at((1 << 19, 5)).assign(7.0).check().unwrap();
    let row = huge.at((1 << 19..(1 << 19) + 2, 4..7));
    assert_eq!(row.to("CPU").to_vec::<f32>().unwrap(), [0.0, 7.0, 0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn assigning_to_a_file_or_a_view_of_it_writes_it() {
    let file = Scratch::new("assigned");
    let x = Tensor::on_disk(&file.0, DType::F32, [2, 3]);
    assert_eq!(file.floats(), [0.0; 6]);
    x.assign(Tensor::arange(6).reshape([2, 3])).check().unwrap();
    assert_eq!(file.floats(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    x.at((1, ..2)).assign(9.0).check().unwrap();
    x.set((0, 2), 8.0).check().unwrap();
    assert_eq!(file.floats(), [0.0, 1.0, 8.0, 9.0, 9.0, 5.0]);
    // places that do not lie one after the other, and others' sizes
    x.set((.., 1), Tensor::new([-1.0, -2.0])).check().unwrap();
    x.t().at(0).assign(6.0).check().unwrap();
    assert_eq!(file.floats(), [6.0, -1.0, 8.0, 6.0, -2.0, 5.0]);
    x.bitcast(DType::I32).at((1, 2)).assign(0).check().unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap(), [6.0, -1.0, 8.0, 6.0, -2.0, 0.0]);
    // what it reads of itself it reads before
    x.assign((x.to("CPU") * 2.0).flip([0])).check().unwrap();
    x.at(0).assign(x.at(1)).check().unwrap();
    assert_eq!(file.floats(), [12.0, -2.0, 16.0, 12.0, -2.0, 16.0]);
    assert!(x.at(0).try_assign(Tensor::zeros([4])).is_err());
    assert!(x.at((0, 0)).reshape([1]).expand([3]).try_assign(1.0).is_err());
}

#[test]
fn a_value_read_before_a_write_stays_and_one_not_read_yet_is_an_error() {
    let file = Scratch::new("before");
    counted(&file, 2);
    let x = Tensor::on_disk(&file.0, DType::F32, [2]);
    let (read, lazy) = (x.to("CPU").realize().unwrap(), x.to("CPU"));
    x.assign(5.0).check().unwrap();
    assert_eq!(read.to_vec::<f32>().unwrap(), [0.0, 1.0]);
    assert!(lazy.to_vec::<f32>().unwrap_err().to_string().contains("overwritten"));
    assert_eq!(x.to("CPU").to_vec::<f32>().unwrap(), [5.0, 5.0]);
    // what others write is seen by who reads next
    file.write(&[3.0, 4.0]);
    assert_eq!(x.to("CPU").to_vec::<f32>().unwrap(), [3.0, 4.0]);
    Tensor::on_disk(&file.0, DType::F32, [2]).at(0).assign(1.0).check().unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap(), [1.0, 4.0]);
}

#[test]
fn a_jit_that_would_read_or_write_a_file_only_once_is_an_error() {
    let file = Scratch::new("jit");
    counted(&file, 2);
    let x = Tensor::on_disk(&file.0, DType::F32, [2]);
    let uses: [fn(&Tensor, Tensor) -> Tensor; 2] = [|x, y| y + x.to("CPU"), |x, y| x.assign(&y)];
    for f in uses {
        let x = x.clone();
        let jit = Jit::new(move |y: Tensor| Ok(f(&x, y)));
        let run = |v: f32| jit.call(Tensor::new([v, v]).realize()?)?.realize();
        let outcome = (0..3).try_for_each(|i| run(i as f32).map(|_| ()));
        assert!(outcome.unwrap_err().to_string().contains("while a Jit records"));
    }
}

#[test]
fn anything_else_done_on_a_file_is_an_error_that_says_what_to_do() {
    let file = Scratch::new("else");
    counted(&file, 2);
    let x = Tensor::on_disk(&file.0, DType::F32, [2]);
    let says = |t: Tensor| t.to_vec::<f32>().unwrap_err().to_string();
    for t in [&x + 1.0, x.sum(()), x.exp(), &x + Tensor::ones([2]).realize().unwrap(), x.log2()] {
        let message = says(t);
        assert!(message.contains("DISK only holds bytes: move it with to(...)"), "{message}");
    }
    assert!(Device::scope(&file.device(), || ()).unwrap_err().to_string().contains("only holds bytes"));
    assert!(says(Tensor::ones([2]).to("DISK")).contains("disk:/path"));
    let nowhere = format!("disk:{}", file.0.join("below").display());
    assert!(says(Tensor::ones([2]).to(&nowhere)).contains("below"));
    // a file that became shorter is an error, never zeros
    std::fs::write(&file.0, [0; 4]).unwrap();
    assert!(says(x.to("CPU")).contains("became shorter"));
    assert_eq!(x.at(0).to("CPU").to_vec::<f32>().unwrap(), [0.0]);
    assert!(Tensor::on_disk(&file.0, DType::F64, [usize::MAX / 2, 2]).check().is_err());
}
