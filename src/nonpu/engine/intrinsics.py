"""Machine operations that Numba does not offer by itself: memory access, bit patterns, conversions, loops.

Everything here exists at build time only.  An *intrinsic* looks like a function to the Numba source in this package
and becomes a few LLVM instructions.  None of them may raise, allocate, or call a library, because the compiled
kernels are linked without any run-time support.
"""

from __future__ import annotations

import inspect
import platform
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from nonpu.spec import primitives

ON_X86 = platform.machine() == "x86_64"
Emit = Callable[..., Any]

BYTE, HALF, SINGLE, DOUBLE = ir.IntType(8), ir.HalfType(), ir.FloatType(), ir.DoubleType()
INT16, INT32, INT64, INT128 = ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.IntType(128)
BOOL, POINTER = ir.IntType(1), ir.PointerType()
CACHE_LINE = ir.VectorType(INT64, 8)

f4, f8, u1, u2, u4, u8 = types.float32, types.float64, types.uint8, types.uint16, types.uint32, types.uint64
i1, i2, i4, i8 = types.int8, types.int16, types.int32, types.int64


def operation(result: Any, arguments: tuple[Any, ...], emit: Emit) -> Any:
    """Return a Numba function of fixed types whose body is what ``emit(builder, *values)`` builds."""

    def define(context: Any, *given: Any) -> Any:
        return result(*arguments), generate

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        built = emit(builder, *values)
        return context.get_dummy_value() if result is types.none else built

    names = ["context", *(f"a{index}" for index in range(len(arguments)))]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    vars(define)["__signature__"] = inspect.Signature([inspect.Parameter(name, kind) for name in names])
    return intrinsic(define)


def external(builder: Any, name: str, result: Any, arguments: tuple[Any, ...]) -> Any:
    """Return the declaration of an LLVM intrinsic or of a function that is linked in later."""
    found = builder.module.globals.get(name)
    return found or ir.Function(builder.module, ir.FunctionType(result, arguments), name)


def call(name: str, result: Any, *arguments: Any) -> Emit:
    """Return an emitter of a call of the named function."""
    return lambda builder, *values: builder.call(external(builder, name, result, arguments), values)


def element_pointer(builder: Any, base: Any, index: Any, stride: Any, offset: Any = None) -> Any:
    """Return the pointer ``base + index*stride + offset`` in the form that LLVM's vectoriser can analyse."""
    pointer = builder.inttoptr(base, POINTER)
    for distance in (builder.mul(index, stride, flags=("nsw",)), offset):
        if distance is not None:
            pointer = builder.gep(pointer, [distance], source_etype=BYTE, inbounds=True)
    return pointer


def access(value: Any, machine: Any) -> tuple[Any, Any]:
    """Return ``load(base, index, stride, offset)`` and ``store(base, index, stride, offset, value)`` for one type.

    Strides and offsets are in bytes.  Addresses need no alignment.
    """

    def emit_load(builder: Any, *place: Any) -> Any:
        return builder.load(element_pointer(builder, *place), align=1, typ=machine)

    def emit_store(builder: Any, base: Any, index: Any, stride: Any, offset: Any, stored: Any) -> None:
        builder.store(stored, element_pointer(builder, base, index, stride, offset), align=1)

    return operation(value, (i8,) * 4, emit_load), operation(types.none, (i8, i8, i8, i8, value), emit_store)


load_u1, store_u1 = access(u1, BYTE)
load_u2, store_u2 = access(u2, INT16)
load_u4, store_u4 = access(u4, INT32)
load_u8, store_u8 = access(u8, INT64)
load_i1, store_i1 = access(i1, BYTE)
load_i2, store_i2 = access(i2, INT16)
load_i4, store_i4 = access(i4, INT32)
load_i8, store_i8 = access(i8, INT64)
load_f4, store_f4 = access(f4, SINGLE)
load_f8, store_f8 = access(f8, DOUBLE)


def _copy(machine: Any) -> Any:
    """Return ``copy(destination, index, stride, source, source_stride)``, exact to the bit."""

    def emit(builder: Any, target: Any, index: Any, stride: Any, source: Any, source_stride: Any) -> None:
        value = builder.load(element_pointer(builder, source, index, source_stride), align=1, typ=machine)
        builder.store(value, element_pointer(builder, target, index, stride), align=1)

    return operation(types.none, (i8, i8, i8, i8, i8), emit)


COPY = {size: _copy(ir.IntType(8 * size)) for size in (1, 2, 4, 8, 16)}


def _emit_stream_line(builder: Any, target: Any, source: Any) -> None:
    value = builder.load(builder.inttoptr(source, POINTER), align=1, typ=CACHE_LINE)
    stored = builder.store(value, builder.inttoptr(target, POINTER), align=64)
    if ON_X86:
        stored.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(INT32, 1)]))


stream_line = operation(types.none, (i8, i8), _emit_stream_line)
"""``stream_line(target, source)``: copy 64 bytes past the caches; the target is a multiple of 64."""

store_fence = operation(types.none, (), call("llvm.x86.sse.sfence", ir.VoidType()) if ON_X86 else lambda builder: None)
"""Order non-temporal stores before everything that follows; nothing where `stream_line` stores plainly."""


def _emit_prefetch(writes: int) -> Callable[[Any, Any], None]:
    def emit(builder: Any, address: Any) -> None:
        kind = (POINTER, INT32, INT32, INT32)
        function = external(builder, "llvm.prefetch.p0", ir.VoidType(), kind)
        purpose, keep, data = (ir.Constant(INT32, number) for number in (writes, 3, 1))
        builder.call(function, [builder.inttoptr(address, POINTER), purpose, keep, data])

    return emit


prefetch, prefetch_to_write = (operation(types.none, (i8,), _emit_prefetch(writes)) for writes in (0, 1))
"""``prefetch(address)``: ask for the cache line that holds an address, which need not exist; the second: so that it can
be written."""


# The flags that arithmetic raises in a status word of the processor and that stay until they are cleared.
# x86-64 (MXCSR): invalid, denormal operand, division by zero, overflow, underflow, inexact; aarch64 (FPSR): the same in
# another order.
ALL_FLAGS, OUT_OF_RANGE = (0x3F, 0x19) if ON_X86 else (0x9F, 0x0D)
"""All of them; those of an invalid operation, overflow, and underflow: a result that is tiny *and* inexact."""
SUBNORMAL, INEXACT = (0x02, 0x20) if ON_X86 else (0, 0x10)
"""The flag of a subnormal operand, 0 where there is none; that of a rounded result."""


def _assembler(builder: Any, text: str, constraints: str, value: Any = None) -> Any:
    """Build an instruction that loads and stores are not moved across, nor what lies between a load and its store."""
    arguments = [] if value is None else [value]
    result = INT64 if constraints.startswith("=") else ir.VoidType()
    kind = ir.FunctionType(result, [item.type for item in arguments])
    return builder.asm(kind, text, f"{constraints},~{{memory}}", arguments, side_effect=True)


def _slot(builder: Any) -> Any:
    with builder.goto_entry_block():
        return builder.alloca(INT32)


def _emit_status(builder: Any) -> Any:
    if not ON_X86:
        return _assembler(builder, "mrs $0, fpsr", "=r")
    slot = _slot(builder)
    _assembler(builder, "stmxcsr ($0)", "r", slot)
    return builder.zext(builder.load(slot, typ=INT32), INT64)


def _emit_set_status(builder: Any, word: Any) -> None:
    if not ON_X86:
        _assembler(builder, "msr fpsr, $0", "r", word)
        return
    slot = _slot(builder)
    builder.store(builder.trunc(word, INT32), slot)
    _assembler(builder, "ldmxcsr ($0)", "r", slot)


def _emit_opaque(builder: Any, value: Any) -> Any:
    register = "x" if ON_X86 else "w"
    return builder.asm(ir.FunctionType(SINGLE, [SINGLE]), "", f"={register},0", [value], side_effect=True)


opaque = operation(f4, (f4,), _emit_opaque)
"""``opaque(value)``: the value, of which the compiler knows nothing; it stays in order with `status`."""

status = operation(i8, (), _emit_status)
"""``status()``: the status word of floating-point arithmetic."""

set_status = operation(types.none, (i8,), _emit_set_status)
"""``set_status(word)``: replace it."""


def stack(size: int) -> Any:
    """Return a function without arguments that gives the address of ``size`` bytes of stack, 64-byte aligned."""

    def emit(builder: Any) -> Any:
        with builder.goto_entry_block():
            memory = builder.alloca(ir.ArrayType(BYTE, size))
        memory.align = 64
        return builder.ptrtoint(memory, INT64)

    return operation(i8, (), emit)


def _emit_pointer_call(builder: Any, function: Any, *values: Any) -> None:
    kind = ir.FunctionType(ir.VoidType(), [INT64] * len(values))
    builder.call(builder.inttoptr(function, kind.as_pointer()), values)


call_kernel = operation(types.none, (i8,) * 4, _emit_pointer_call)
"""``call_kernel(function, operands, count, parameters)``."""

call_move = operation(types.none, (i8,) * 9, _emit_pointer_call)
"""``call_move(function, dst, dst_row, dst_col, src, src_row, src_col, rows, cols)``."""


def _emit_cast(kind: Any) -> Emit:
    return lambda builder, value: builder.bitcast(value, kind)


single_bits = operation(u4, (f4,), _emit_cast(INT32))
bits_single = operation(f4, (u4,), _emit_cast(SINGLE))
double_bits = operation(i8, (f8,), _emit_cast(INT64))
bits_double = operation(f8, (i8,), _emit_cast(DOUBLE))
to_single = operation(f4, (f8,), lambda builder, value: builder.fptrunc(value, SINGLE))
as_single = operation(f8, (f8,), lambda builder, value: builder.fpext(builder.fptrunc(value, SINGLE), DOUBLE))
to_double = operation(f8, (f4,), lambda builder, value: builder.fpext(value, DOUBLE))
absolute_single = operation(f4, (f4,), call("llvm.fabs.f32", SINGLE, SINGLE))
absolute_double = operation(f8, (f8,), call("llvm.fabs.f64", DOUBLE, DOUBLE))
unordered = operation(types.boolean, (f4, f4), lambda builder, a, b: builder.fcmp_unordered("uno", a, b))
"""Whether one of two FLOATs is NaN."""


def _emit_trailing_zeros(builder: Any, value: Any) -> Any:
    return builder.cttz(value, ir.Constant(BOOL, 1))


trailing_zeros = operation(i8, (i8,), _emit_trailing_zeros)
"""How many bits below the lowest that is set; for numbers other than 0."""


def _emit_difference(builder: Any, a: Any, b: Any) -> Any:
    return builder.xor(builder.bitcast(a, INT32), builder.bitcast(b, INT32))


difference_single = operation(u4, (f4, f4), _emit_difference)
sign_single = operation(f4, (f4, f4), call("llvm.copysign.f32", SINGLE, SINGLE, SINGLE))
sign_double = operation(f8, (f8, f8), call("llvm.copysign.f64", DOUBLE, DOUBLE, DOUBLE))
fma_single = operation(f4, (f4,) * 3, call("llvm.fma.f32", SINGLE, SINGLE, SINGLE, SINGLE))
fma_double = operation(f8, (f8,) * 3, call("llvm.fma.f64", DOUBLE, DOUBLE, DOUBLE, DOUBLE))


def _emit_power(integer: Any, real: Any, bias: int, mantissa: int) -> Emit:
    """Build ``2**k`` from a magic sum: its low bits are ``k``, which is shifted into the exponent."""

    def emit(builder: Any, value: Any) -> Any:
        exponent = builder.add(builder.bitcast(value, integer), ir.Constant(integer, bias))
        return builder.bitcast(builder.shl(exponent, ir.Constant(integer, mantissa)), real)

    return emit


power_single = operation(f4, (f4,), _emit_power(INT32, SINGLE, 127, 23))
power_double = operation(f8, (f8,), _emit_power(INT64, DOUBLE, 1023, 52))


def _emit_scaled(integer: Any, real: Any, mantissa: int) -> Emit:
    """Build ``value * 2**k``: the low bits of a magic sum are added to the exponent."""

    def emit(builder: Any, value: Any, magic_sum: Any) -> Any:
        exponent = builder.shl(builder.bitcast(magic_sum, integer), ir.Constant(integer, mantissa))
        return builder.bitcast(builder.add(builder.bitcast(value, integer), exponent), real)

    return emit


scaled_single = operation(f4, (f4, f4), _emit_scaled(INT32, SINGLE, 23))
scaled_double = operation(f8, (f8, f8), _emit_scaled(INT64, DOUBLE, 52))

half_to_single = operation(f4, (u2,), call("nonpu_half_to_single", SINGLE, INT16))
single_to_half = operation(u2, (f4,), call("nonpu_single_to_half", INT16, SINGLE))
"""FLOAT16 is implemented once per CPU level (module ``moves``) and linked in before optimisation."""

machine_half_to_single = operation(f4, (u2,), lambda b, value: b.fpext(b.bitcast(value, HALF), SINGLE))
machine_single_to_half = operation(u2, (f4,), lambda b, value: b.bitcast(b.fptrunc(value, HALF), INT16))


def truncate(source: Any, target: Any) -> Any:
    """Return the conversion of a number in range to an integer type, toward zero."""
    machine = ir.IntType(target.bitwidth)
    wide = ir.IntType(max(target.bitwidth, 32))  # processors convert to 32 and 64 bits only
    unsigned = not target.signed and target.bitwidth >= 32

    def emit(builder: Any, value: Any) -> Any:
        result = (builder.fptoui if unsigned else builder.fptosi)(value, wide)
        return result if wide == machine else builder.trunc(result, machine)

    return operation(target, (source,), emit)


class _Distinct(ir.MDValue):  # type: ignore[misc]
    """A metadata node that LLVM does not merge with an equal one."""

    def descr(self, buf: Any) -> None:
        buf += (f"distinct !{{ {', '.join(item.get_reference() for item in self.operands)} }}\n",)

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


def _distinct(module: Any) -> Any:
    return _Distinct(module, (), name=str(len(module.metadata)))


def _loop_properties(module: Any, group: Any, vectorise: bool, interleave: int) -> Any:
    """Return loop metadata: iterations are independent; no vectors, or several at a time, where told so."""
    properties = [module.add_metadata([ir.MetaDataString(module, "llvm.loop.parallel_accesses"), group])]
    if not vectorise:
        name = ir.MetaDataString(module, "llvm.loop.vectorize.enable")
        properties.append(module.add_metadata([name, ir.Constant(BOOL, 0)]))
    if interleave:
        name = ir.MetaDataString(module, "llvm.loop.interleave.count")
        properties.append(module.add_metadata([name, ir.Constant(INT32, interleave)]))
    loop = _distinct(module)
    loop.operands = (loop, *properties)  # LLVM knows a loop's node by its first operand: itself
    return loop


def _compiled(context: Any, body: Any, arguments: tuple[Any, ...]) -> Any:
    """Compile a Numba function for argument types; return its result type and a function that emits a call."""
    signature = body.get_call_type(context, arguments, {})
    result = body.dispatcher.get_compile_result(signature)

    def emit(target: Any, builder: Any, values: list[Any]) -> Any:
        target.add_linking_libs([result.library])
        # An exception would propagate to the C wrapper, whose open symbols make the build refuse the kernel.
        return target.call_internal(builder, result.fndesc, signature, values)

    return signature.return_type, emit


def _loop(vectorise: bool, reduce: bool = False, interleave: int = 0) -> Any:
    def each(context: Any, body: Any, count: Any, arguments: Any) -> Any:
        result, emit = _compiled(context, body, (i8, *arguments.types))
        kind = INT32 if result == u4 else BOOL

        def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            constants = [builder.extract_value(values[2], position) for position in range(len(arguments))]
            group, start = _distinct(builder.module), builder.block
            inside, after = builder.append_basic_block("each"), builder.append_basic_block("each.end")
            builder.cbranch(builder.icmp_signed(">", values[1], ir.Constant(INT64, 0)), inside, after)
            builder.position_at_end(inside)
            index, found = builder.phi(INT64), builder.phi(kind)
            index.add_incoming(ir.Constant(INT64, 0), start)
            found.add_incoming(ir.Constant(kind, 0), start)
            here = emit(target, builder, [index, *constants])
            for instruction in inside.instructions:
                if isinstance(instruction, ir.CallInstr):
                    instruction.set_metadata("llvm.access.group", group)  # inlining hands it to loads and stores
            following = builder.add(index, ir.Constant(INT64, 1), flags=("nuw", "nsw"))
            so_far = builder.or_(found, here) if reduce else found
            end = builder.block
            index.add_incoming(following, end)
            found.add_incoming(so_far, end)
            latch = builder.cbranch(builder.icmp_signed("<", following, values[1]), inside, after)
            latch.set_metadata("llvm.loop", _loop_properties(builder.module, group, vectorise, interleave))
            builder.position_at_end(after)
            all_found = builder.phi(kind)
            all_found.add_incoming(ir.Constant(kind, 0), start)
            all_found.add_incoming(so_far, end)
            any_found = builder.icmp_unsigned("!=", all_found, ir.Constant(kind, 0))
            return any_found if reduce else target.get_dummy_value()

        return (types.boolean if reduce else types.none)(body, i8, arguments), generate

    return intrinsic(each)


each_index = _loop(vectorise=True)
"""``each_index(body, count, arguments)``: call ``body(index, *arguments)`` for 0 <= index < count, in vectors.

It promises LLVM that iterations are independent of each other.  That holds for elementwise work even where the
output is exactly one of the inputs, so no overlap is tested at run time and in-place work is as fast as any other.
"""

any_index = _loop(vectorise=True, reduce=True, interleave=4)
"""Like `each_index`; return whether ``body`` returned True for any index.  All indices are visited.

Instead of a truth value the body may return a ``u4``: vectors of these are collected by one operation, where each
comparison fills a mask register and takes several.

Four vectors at a time: the chains of dependent operations in `guarded` functions are longer than what a processor
looks ahead (1.1 to 1.2 times the speed of one at a time).
"""

any_pair = _loop(vectorise=True, reduce=True, interleave=2)
"""The same for bodies that compute two elements: four of them would need more registers than there are."""

each_scattered = _loop(vectorise=False)
"""Like `each_index`, one element at a time: on strided memory, gathering vectors costs more than it saves."""


@intrinsic
def map_tuple(context: Any, function: Any, index: Any, items: Any) -> Any:
    """Return the results of ``function(index, item)`` over a tuple of equal types, as one flat tuple."""
    result, emit = _compiled(context, function, (i8, items.dtype))
    width = len(result) if isinstance(result, types.BaseTuple) else 0
    results = types.UniTuple(result.dtype if width else result, len(items) * max(width, 1))

    def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
        found = []
        for position in range(len(items)):
            one = emit(target, builder, [values[1], builder.extract_value(values[2], position)])
            found += [builder.extract_value(one, part) for part in range(width)] if width else [one]
        return target.make_tuple(builder, results, found)

    return results(function, i8, items), generate


def words(kind: Any, count: int) -> Any:
    """Return ``read(address) -> tuple`` of ``count`` consecutive 8-byte words."""

    @intrinsic
    def read(context: Any, address: Any) -> Any:
        result = types.UniTuple(kind, count)

        def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            machine, eight = target.get_value_type(kind), ir.Constant(INT64, 8)
            places = [element_pointer(builder, values[0], ir.Constant(INT64, word), eight) for word in range(count)]
            return target.make_tuple(builder, result, [builder.load(place, align=8, typ=machine) for place in places])

        return result(i8), generate

    return read


def _overload(primitive: Any) -> Any:
    return overload(primitive, strict=False)  # the annotations of the bodies below are not part of the interface


@_overload(primitives.fma)
def _fma(a: Any, b: Any, c: Any) -> Any:
    if a == b == c == f4:
        return lambda a, b, c: fma_single(a, b, c)
    return lambda a, b, c: fma_double(a, b, c)


@_overload(primitives.power_of_two)
def _power_of_two(magic_sum: Any) -> Any:
    if magic_sum == f4:
        return lambda magic_sum: power_single(magic_sum)
    return lambda magic_sum: power_double(magic_sum)


@_overload(primitives.scaled)
def _scaled(value: Any, magic_sum: Any) -> Any:
    if value == magic_sum == f4:
        return lambda value, magic_sum: scaled_single(value, magic_sum)
    return lambda value, magic_sum: scaled_double(value, magic_sum)


@_overload(primitives.with_sign)
def _with_sign(value: Any, other: Any) -> Any:
    if value == other == f4:
        return lambda value, other: sign_single(value, other)
    return lambda value, other: sign_double(value, other)


@_overload(primitives.as_float)
def _as_float(value: Any) -> Any:
    return lambda value: as_single(value)


@_overload(primitives.difference)
def _difference(a: Any, b: Any) -> Any:
    return lambda a, b: difference_single(a, b)


@_overload(primitives.float_bits)
def _float_bits(value: Any) -> Any:
    return lambda value: double_bits(value)


@_overload(primitives.bits_float)
def _bits_float(bits: Any) -> Any:
    return lambda bits: bits_double(bits)


PRIMITIVES = (
    primitives.fma,
    primitives.power_of_two,
    primitives.scaled,
    primitives.with_sign,
    primitives.as_float,
    primitives.difference,
    primitives.float_bits,
    primitives.bits_float,
)
"""The functions that have an instruction of their own here; others are compiled from their source."""
