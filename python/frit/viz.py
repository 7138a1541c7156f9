"""Seeing inside: recordings for ``frit viz``, names for what a program does, and how far it is."""

from frit._frit import ProgressLine, begin_recording, close_span, end_recording, open_span


class Viz:
    """Records what the compiler and the devices do while it is open: ``with frit.Viz("step.viz"): step()``.

    ``frit viz step.viz`` shows the file in a page, ``frit explain step.viz train.py:12`` says why a line became the kernels
    that it did. There is one recording at a time: inside another one, also that of ``FRIT_VIZ`` or ``FRIT_PROFILE``, this is
    part of that one, and warns.
    """

    def __init__(self, path):
        self.path = path

    def __enter__(self):
        self._is_begun = begin_recording(self.path)
        return self

    def __exit__(self, *raised):
        if self._is_begun:
            end_recording()


class span:
    """What happens while it is open has a name in profiles and recordings: ``with frit.span("epoch"): ...``.

    So have kernels of what is described meanwhile, also in the lines of ``FRIT_DEBUG=2``; of spans inside others all names
    are told.
    """

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        open_span(self.name)
        return self

    def __exit__(self, *raised):
        close_span()


class Progress:
    """A line on the terminal for work of so many steps, with what is watched, such as the loss, over time.

    ``with frit.Progress("training", 70) as progress: ...; progress.step(loss=loss.item())``. Nothing is shown where no one looks
    at a terminal, with ``FRIT_PROGRESS=off``, or before the work has taken a moment.
    """

    def __init__(self, what, total=0):
        self._line = ProgressLine(what, total)

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self._line.end()

    def step(self, **values):
        """One more step is done; a value that is given is shown with those before it."""
        for name, value in values.items():
            self._line.value(name, float(value))
        self._line.step()

    def say(self, *parts):
        """Print, above the line."""
        self._line.hide()
        print(*parts)
