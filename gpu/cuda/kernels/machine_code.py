"""Reads the machine code of GPUs in an object file: which instructions a kernel has, and its loops.

Instructions of all GPUs from V100 on have 16 bytes. What is known of them here: the operation (the low
nine bits), and where a branch goes. The toolkit's cuobjdump, which not every machine has, shows the same.
"""
import struct
from dataclasses import dataclass

ELF = b"\x7fELF"
CUDA = 190  # e_machine
FMA, LOAD, BRANCH, EXIT = 0x023, 0x181, 0x147, 0x14d  # FFMA in all its forms, LDG, BRA, EXIT
INTEGER_PRODUCTS = 0x037, 0x1f1  # IMMA, IGMMA: on tensor cores
STEP = 16  # bytes of an instruction
# Arithmetic, by the number of operands: FSEL, FMNMX, FSET, FSETP, FMUL, FADD; LOP3, FFMA, IMAD.
TWO_OPERANDS, THREE_OPERANDS = {0x008, 0x009, 0x00a, 0x00b, 0x020, 0x021}, {0x012, 0x023, 0x024}


@dataclass
class Function:
    name: str  # mangled
    arch: str  # "sm_80"
    code: bytes

    def operations(self):
        return [struct.unpack_from("<H", self.code, at)[0] & 0x1ff
                for at in range(0, len(self.code), STEP)]

    def backward_branches(self):
        """(first, last) instruction of each loop, the branch included."""
        new = int(self.arch[3:]) >= 90
        for index, operation in enumerate(self.operations()):
            if operation != BRANCH:
                continue
            target = index + 1 + branch_distance(self.code[index * STEP:(index + 1) * STEP], new)
            if 0 <= target <= index:
                yield target, index


def branch_distance(instruction, new):
    """In instructions, from the next one on. From sm_90 on the low eight bits are apart."""
    bits = int.from_bytes(instruction, "little")
    words = bits >> 34 & (1 << 48) - 1  # of four bytes
    if words >> 47:
        words -= 1 << 48
    if new:
        words = words << 8 | bits >> 16 & 0xff
    return words * 4 // STEP


def functions(data):
    """All functions in the images for GPUs that a file holds, not compressed."""
    at = data.find(ELF)
    while at >= 0:
        if struct.unpack_from("<H", data, at + 18)[0] == CUDA:
            yield from functions_of_image(data[at:])
        at = data.find(ELF, at + 4)


def functions_of_image(image):
    version, = struct.unpack_from("<B", image, 8)
    sections_at, flags = struct.unpack_from("<QI", image, 40)
    size, count, names_index = struct.unpack_from("<HHH", image, 58)
    arch = "sm_" + str(flags >> 8 & 0xff if version >= 8 else flags & 0xff)

    def section(index):
        return struct.unpack_from("<IIQQQQ", image, sections_at + index * size)

    names = section(names_index)[4]
    for index in range(count):
        name_at, _, _, _, offset, length = section(index)
        name = image[names + name_at:image.index(b"\0", names + name_at)].decode()
        if name.startswith(".text."):
            yield Function(name.removeprefix(".text."), arch, image[offset:offset + length])


def product_loops(function):
    """Of each innermost loop with multiply-adds: their number, and how many of them stand before each
    load from global memory."""
    operations = function.operations()
    loops = [(first, last) for first, last in function.backward_branches()
             if FMA in operations[first:last]]
    for first, last in loops:
        if any(first <= f and l <= last and (f, l) != (first, last) for f, l in loops):
            continue
        body = operations[first:last + 1]
        yield body.count(FMA), [body[:i].count(FMA) for i, o in enumerate(body) if o == LOAD]


def tensor_loop(function):
    """The operations of the shortest loop with integer products on tensor cores, or []."""
    operations = function.operations()
    loops = [operations[first:last + 1] for first, last in function.backward_branches()]
    return min((body for body in loops if any(product in body for product in INTEGER_PRODUCTS)),
               key=len, default=[])


def bits(instruction, first, count):
    return int.from_bytes(instruction, "little") >> first & (1 << count) - 1


def loaded(instruction):
    """The registers that a load from memory writes."""
    size = bits(instruction, 73, 3)
    first = bits(instruction, 16, 8)
    return range(first, first + {5: 2, 6: 4}.get(size, 1))


def operands(instruction):
    """The registers that an arithmetic instruction reads; those of others are not known here."""
    operation = bits(instruction, 0, 9)
    if operation not in TWO_OPERANDS | THREE_OPERANDS:
        return set()
    places = [24] + [32] * (bits(instruction, 9, 3) == 1) + [64] * (operation in THREE_OPERANDS)
    return {bits(instruction, place, 8) for place in places}


def serial_loads(function):
    """How many loads from global memory in a row are each followed by arithmetic on what they load before
    the next load, so that none of them is in flight beside another one."""
    most = run = 0
    newest = None  # The registers of a load that nothing has used yet.
    for at in range(0, len(function.code), STEP):
        instruction = function.code[at:at + STEP]
        operation = bits(instruction, 0, 9)
        if operation in (BRANCH, EXIT):
            run, newest = 0, None
        elif operation == LOAD:
            run = 0 if newest else run
            newest = loaded(instruction)
        elif newest and operands(instruction) & set(newest):
            run, newest = run + 1, None
            most = max(most, run)
    return most
