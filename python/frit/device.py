"""Devices: which there are, and which one new tensors are made on."""

from frit import _frit

__all__ = ["Device"]


class _Opened(str):
    """The name of a device that can be used."""

    def synchronize(self):
        """Waits until all that was launched is done; an IndexError where an index was outside."""
        _frit.synchronize(str(self))


class _Device:
    """``Device.DEFAULT`` is the device new tensors are made on, and can be set; ``Device["CPU"]`` asks for one."""

    @property
    def DEFAULT(self):
        """The device new tensors are made on; can be set. At first that of FRIT_DEVICE, else CPU."""
        return _frit.canonical_device()

    @DEFAULT.setter
    def DEFAULT(self, name):
        _frit.set_default_device(name)

    default = DEFAULT

    def canonicalize(self, device=None):
        """The proper name of a device; the default one's of None."""
        return _frit.canonical_device(device)

    def get_available_devices(self):
        """The names of the devices that can be computed on here."""
        return (name for name, _, found, _ in _frit.list_devices() if found is not None and name != "DISK")

    def describe(self):
        """Every device: name, what it is, and a description or the reason why it cannot be used."""
        return _frit.list_devices()

    def memory(self, device=None):
        """Bytes in use on a device, the most there ever were, and bytes kept for reuse."""
        return _frit.device_memory(self.canonicalize(device))

    def __getitem__(self, name):
        return _Opened(self.canonicalize(name))

    def __repr__(self):
        return f"<Device, default {self.DEFAULT}>"


Device = _Device()
