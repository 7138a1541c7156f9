"""Small state files, written by torch, numpy, safetensors and gguf: what the readers are tested and fuzzed with.

    python make_state_files.py    # writes ../fuzz/corpus/*/* and gguf_blocks.bin beside this file

gguf_blocks.bin: for each quantised type its name (u8 length), raw blocks (u32 length) and float32 values (u32 count).
"""
import collections, io, json, os, pickle, struct, zipfile
import gguf, numpy as np, torch
from gguf import GGMLQuantizationType as T, GGML_QUANT_SIZES
from safetensors.torch import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
CORPUS = os.path.join(HERE, "..", "fuzz", "corpus")


def path(target, name):
    os.makedirs(os.path.join(CORPUS, target), exist_ok=True)
    return os.path.join(CORPUS, target, name)


def blocks():
    rng = np.random.default_rng(7)
    out = b""
    for kind in T:
        if kind in (T.F32, T.F16, T.BF16, T.F64, T.I8, T.I16, T.I32, T.I64):
            continue
        size = 36 if kind == T.Q8_1 else GGML_QUANT_SIZES[kind][1]
        raw = rng.integers(0, 256, (6, size), dtype=np.uint8)
        raw[0] = 0
        raw[1] = np.resize(np.array([0xFF, 0x7B], np.uint8), size)  # the largest float16, everywhere
        raw[2] = np.resize(np.array([0x01, 0x00], np.uint8), size)  # the smallest
        # the package has no code for three of them: what their definitions say
        if kind == T.Q8_1:
            values = raw[:, :2].copy().view(np.float16).astype(np.float32) * raw[:, 4:].view(np.int8)
        elif kind == T.Q8_K:
            values = raw[:, :4].copy().view(np.float32) * raw[:, 4:260].view(np.int8)
        elif kind == T.Q1_0:
            bits = np.unpackbits(raw[:, 2:], axis=1, bitorder="little").astype(np.float32)
            values = raw[:, :2].copy().view(np.float16).astype(np.float32) * (2 * bits - 1)
        else:
            values = gguf.quants.dequantize(raw, kind)
        values = np.ascontiguousarray(values, dtype="<f4")
        out += struct.pack("<B", len(kind.name)) + kind.name.encode()
        out += struct.pack("<I", raw.size) + raw.tobytes() + struct.pack("<I", values.size) + values.tobytes()
    open(os.path.join(HERE, "gguf_blocks.bin"), "wb").write(out)


def gguf_files():
    w = gguf.GGUFWriter(path("gguf", "small.gguf"), "toy")
    w.add_uint8("u8", 200), w.add_int8("i8", -100), w.add_uint16("u16", 60000), w.add_int16("i16", -30000)
    w.add_uint32("u32", 4000000000), w.add_int32("i32", -2000000000), w.add_float32("f32", 1.5)
    w.add_bool("bool", True), w.add_string("string", "grüße"), w.add_uint64("u64", 1 << 63)
    w.add_int64("i64", -(1 << 62)), w.add_float64("f64", 0.1)
    w.add_array("numbers", [1, 2, 3]), w.add_array("words", ["a", "", "ccc"])
    w.add_tensor("plain", np.arange(6, dtype=np.float32).reshape(2, 3))
    w.add_tensor("half", np.arange(4, dtype=np.float16))
    raw = gguf.quants.quantize(np.linspace(-1, 1, 64, dtype=np.float32).reshape(2, 32), T.Q4_0)
    w.add_tensor("quantised", raw, raw_dtype=T.Q4_0)
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()
    # an array of arrays, which the writer does not write
    text = lambda s: struct.pack("<Q", len(s)) + s.encode()
    inner = b"".join(struct.pack("<IQ", 5, n) + struct.pack(f"<{n}i", *range(n)) for n in (2, 0, 3))
    body = b"GGUF" + struct.pack("<IQQ", 2, 0, 1) + text("nested") + struct.pack("<IIQ", 9, 9, 3) + inner
    open(path("gguf", "nested.gguf"), "wb").write(body)


def torch_files():
    base = torch.arange(24, dtype=torch.float32)
    state = collections.OrderedDict(
        a=base.reshape(4, 6), b=base.reshape(4, 6).t(), c=base[3:9], d=base.reshape(2, 3, 4)[:, 1:, ::2],
        e=torch.tensor(3, dtype=torch.int64), f=torch.tensor([True, False, True]), g=torch.zeros(0, 3),
        h=torch.tensor([1.0, -2.0], dtype=torch.bfloat16), i=torch.ones(1, 2).expand(3, 2),
        j=base.as_strided((3, 4), (2, 1)), k=torch.tensor([[1, 2]], dtype=torch.uint8))
    state._metadata = collections.OrderedDict(version=1)
    for legacy in (True, False):
        name = "legacy.pth" if legacy else "zip.pt"
        torch.save(state, path("torch", name), _use_new_zipfile_serialization=not legacy)
    checkpoint = {
        "epoch": 3, "lr": 0.5, "name": "x", "none": None, "yes": True, "bytes": b"\x00\xff", "big": (1, [2, {"k": 3}]),
        "model": {"w": torch.nn.Parameter(torch.ones(2, 2)), "s": torch.Size([2, 3])}, 7: torch.float16,
        "device": torch.device("cpu"), "u16": torch.tensor([1, 65535], dtype=torch.uint16),
        "f8": torch.tensor([1.0, 0.5]).to(torch.float8_e4m3fn)}
    torch.save(checkpoint, path("torch", "checkpoint.pt"))
    torch.save(checkpoint, path("torch", "checkpoint4.pt"), pickle_protocol=4)

    torch.save(torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.ReLU()), path("torch", "module.pt"))
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    with torch.no_grad():
        net[0].weight.copy_(torch.arange(6.0).reshape(3, 2))
    torch.jit.save(torch.jit.script(net.eval()), path("torch", "script.pt"))


def pickles():
    value = {"a": [1, 2.5, None, True], "b": ("x", b"y", {3}), "c": 1 << 70, "d": -1}
    for protocol in range(6):
        open(path("pickle", f"protocol{protocol}"), "wb").write(pickle.dumps(value, protocol))
    with zipfile.ZipFile(path("torch", "zip.pt")) as z:
        open(path("pickle", "state"), "wb").write(z.read("zip/data.pkl"))


def npy_files():
    x = np.arange(6).reshape(2, 3)
    for name, a in dict(
            f4=x.astype("<f4"), big=x.astype(">f8"), fortran=np.asfortranarray(x.astype("<i4")), bool=x % 2 == 1,
            half=x.astype("<f2"), scalar=np.array(7, dtype="<i8"), empty=np.zeros((0, 4), "<u2"),
            complex=x.astype("<c8")).items():
        np.save(path("npy", f"{name}.npy"), a)
    with open(path("npy", "version2.npy"), "wb") as f:
        np.lib.format.write_array(f, x.astype("<u4"), version=(2, 0))
    with open(path("npy", "version3.npy"), "wb") as f:
        np.lib.format.write_array(f, x.astype("<u8"), version=(3, 0))
    np.savez(path("npz", "stored.npz"), a=x.astype("<f4"), b=np.array(2.5))
    np.savez_compressed(path("npz", "deflated.npz"), a=np.tile(x.astype("<f4"), (20, 1)), b=np.array(2.5))


def safetensors_files():
    base = torch.arange(6.0).reshape(2, 3)
    save_file({"a": base, "b": base.to(torch.int8), "c": torch.tensor(1.5).half()}, path("safetensors", "small.safetensors"), {"k": "v"})
    save_file({}, path("safetensors", "empty.safetensors"))
    index = {"metadata": {"total_size": 8}, "weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    json.dump(index, open(path("index", "model.safetensors.index.json"), "w"))


blocks(), gguf_files(), torch_files(), pickles(), npy_files(), safetensors_files()
