"""Fourier transforms; complex numbers are pairs, a last dim of 2: see writer.py."""
from writer import *

def numbers(x): return torch.complex(x[..., 0], x[..., 1])
def options(p): return dict(n=p.int("n"), dim=p.int("dim", -1), norm=p.values.get("norm", "backward"))
def pairs(f): return lambda i, p: torch.view_as_real(f(numbers(i[0]), p))
def stft_options(i, p):
    return dict(n_fft=p.int("n_fft"), hop_length=p.int("hop"), win_length=i[1].shape[0] if len(i) > 1 else None,
                window=i[1] if len(i) > 1 else None, center=p.values.get("center") != "false",
                normalized=p.flag("normalized"), onesided=p.values.get("onesided") != "false")

OPS |= {
    "fft":   pairs(lambda x, p: torch.fft.fft(x, **options(p))),
    "ifft":  pairs(lambda x, p: torch.fft.ifft(x, **options(p))),
    "rfft":  lambda i, p: torch.view_as_real(torch.fft.rfft(i[0], **options(p))),
    "irfft": lambda i, p: torch.fft.irfft(numbers(i[0]), **options(p)),
    "fftn":  pairs(lambda x, p: torch.fft.fftn(x, dim=p.ints("dims") or None, norm=p.values.get("norm", "backward"))),
    "ifftn": pairs(lambda x, p: torch.fft.ifftn(x, dim=p.ints("dims") or None, norm=p.values.get("norm", "backward"))),
    "stft":  lambda i, p: torch.view_as_real(torch.stft(i[0], return_complex=True, **stft_options(i, p))),
    "istft": lambda i, p: torch.istft(numbers(i[0]), length=p.int("length"), **stft_options(i, p)),
    "fftfreq":  lambda i, p: torch.fft.fftfreq(p.int("n"), p.float("d")),
    "rfftfreq": lambda i, p: torch.fft.rfftfreq(p.int("n"), p.float("d")),
}

def transform_cases():
    for n in (1, 2, 3, 8, 12, 36, 67):
        case("fft", f"{n}", floats(2, n, 2))
        case("ifft", f"{n}", floats(n, 2))
        case("rfft", f"{n}", floats(2, n))
        if n > 1: case("irfft", f"{n}", floats(2, n // 2 + 1, 2), n=n)
    for norm in ("ortho", "forward"):
        case("fft", norm, floats(6, 2), norm=norm)
        case("ifft", norm, floats(6, 2), norm=norm)
        case("rfft", norm, floats(6), norm=norm)
        case("irfft", norm, floats(4, 2), norm=norm)
    case("fft", "cut", floats(7, 2), n=4)
    case("fft", "longer", floats(3, 2), n=8)
    case("fft", "dim0", floats(5, 3, 2), dim=0)
    case("fft", "view", floats(2, 3, 4), pre={0: "permute:1,2,0;flip:1"})
    case("fft", "no_rows", floats(0, 4, 2))
    case("rfft", "dim1", floats(2, 6, 3), dim=1)
    case("rfft", "cut", floats(2, 9), n=5)
    case("rfft", "longer", floats(2, 3), n=8)
    case("irfft", "even", floats(2, 5, 2))
    case("irfft", "dim0", floats(4, 2, 2), dim=0, n=7)
    case("irfft", "cut", floats(6, 2), n=6)
    case("irfft", "longer", floats(3, 2), n=10)
    case("fftn", "all", floats(3, 4, 2))
    case("fftn", "two_of_three", floats(2, 3, 4, 2), dims=[0, 2], norm="ortho")
    case("ifftn", "all", floats(3, 4, 2))
    any = f32(0.)
    for n in (1, 4, 7):
        case("fftfreq", f"{n}", any, n=n, d=.5)
        case("rfftfreq", f"{n}", any, n=n, d=.5)

def piece_cases():
    hann = torch.hann_window(8)
    case("stft", "plain", floats(2, 20), hann, n_fft=8, hop=2)
    case("stft", "default_hop", floats(24), hann, n_fft=8)
    case("stft", "short_window", floats(20), torch.hann_window(5), n_fft=8, hop=3)
    case("stft", "not_centred", floats(20), hann, n_fft=8, hop=4, center=False)
    case("stft", "normalized_all", floats(16), hann, n_fft=8, hop=4, normalized=True, onesided=False)
    case("istft", "plain", floats(2, 5, 6, 2), hann, n_fft=8, hop=2)
    case("istft", "short_window", floats(5, 6, 2), torch.hann_window(6, periodic=False) + .1, n_fft=8, hop=3)
    case("istft", "length", floats(5, 5, 2), hann, n_fft=8, hop=2, length=10)
    case("istft", "normalized_all", floats(8, 4, 2), hann + .1, n_fft=8, hop=3, normalized=True, onesided=False)

if __name__ == "__main__":
    transform_cases()
    piece_cases()
    write(__file__)
