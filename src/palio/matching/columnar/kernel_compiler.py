"""Compiler of kernels: that of Numba, without the work that kernels do not need.

A kernel is a function on numbers and arrays that calls functions marked `inlined` and operations of `native`. Numba's
own pipeline is made for all of Python, and takes twice as long:

- Passes for closures, generators, array expressions and constant branches do nothing here, and are left out. So is the
  counting of references: a kernel allocates nothing.
- A variable has one type, wherever it is assigned; one that holds integers and floats is refused.
- An operator on the same types is resolved once, not at each place where it stands.
- An inlined function is neither optimised nor turned into machine code by itself, only within the kernels that call it.
- LLVM optimises a kernel in one run; Numba's first one brings reference counts together, which are not there.
- No loop is unrolled. Kernels that build an index are compiled at a lower level, without vector instructions.
"""

from __future__ import annotations

import operator
from importlib import import_module
from types import BuiltinFunctionType
from typing import Any, Final

import llvmlite.binding as llvm  # type: ignore[import-untyped]
from numba import types
from numba.core import codegen, compiler, compiler_machinery, errors, ir, typed_passes, typeinfer, untyped_passes
from numba.core.extending import _Intrinsic
from numba.core.types import functions

# Without types
_codegen: Any = codegen
_llvm: Any = llvm
_compiler: Any = compiler
_dynfunc: Any = import_module("numba._dynfunc")
_typed: Any = typed_passes
_typeinfer: Any = typeinfer
_untyped: Any = untyped_passes
_functions: Any = functions
_SCALARS: Final = (types.Number, types.Boolean, types.Literal)
_ON_ARRAYS: Final = (operator.getitem, operator.setitem, len)
_OPERATORS: Final = (BuiltinFunctionType, _Intrinsic)
_machinery: Any = compiler_machinery
_errors: Any = errors


class KernelCompiler(_compiler.CompilerBase):  # type: ignore[misc]
    """The passes that a kernel needs."""

    @property
    def _lowering(self) -> Any:
        return _Lowering

    def _compile_core(self) -> Any:
        with _overloads:
            return super()._compile_core()

    def define_pipelines(self) -> list[Any]:
        passes = _machinery.PassManager("kernel")
        passes.add_pass(_untyped.TranslateByteCode, "read the bytecode")
        passes.add_pass(_untyped.FixupArgs, "name the arguments")
        passes.add_pass(_untyped.IRProcessing, "find the uses of variables")
        passes.add_pass(_TypeInference, "infer types")
        passes.add_pass(_typed.AnnotateTypes, "annotate types")
        passes.add_pass(self._lowering, "generate code")
        passes.add_pass(_typed.NoPythonBackend, "pack the result")
        passes.finalize()
        return [passes]


class BuildKernelCompiler(KernelCompiler):
    """The passes that a kernel of index building needs, which runs once where those of matching run a million times."""

    @property
    def _lowering(self) -> Any:
        return _BuildLowering


class _Overloads:
    """Resolved overloads of Numba's functions, in the place of its own search while a kernel is compiled.

    Numba tries up to a dozen candidates, with and without the values of literals, at each place where an operator
    stands, and again when it generates code. Its compiler runs in one thread at a time, and so does this.
    """

    def __init__(self) -> None:
        self._found: dict[Any, Any] = {}
        self._depth = 0
        self._search = _functions.BaseFunction.get_call_type

    def __enter__(self) -> None:
        self._depth += 1
        if self._depth > 1:
            return
        found, search = self._found, self._search

        def get_call_type(function: Any, context: Any, arguments: Any, named: Any) -> Any:
            if named or not _is_plain(function, arguments):
                return search(function, context, arguments, named)
            if isinstance(function.typing_key, _OPERATORS):
                # What they do depends on types alone, not on the values of literals.
                arguments = tuple(map(types.unliteral, arguments))
            key = function, tuple(arguments)
            known = found.get(key)
            if known is None:
                found[key] = known = search(function, context, arguments, named)
            return known

        _functions.BaseFunction.get_call_type = get_call_type

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth:
            return
        _functions.BaseFunction.get_call_type = self._search


def _is_plain(function: Any, arguments: tuple[Any, ...]) -> bool:
    """Whether a call is one on numbers, or reads or writes an element of an array."""
    if function.typing_key in _ON_ARRAYS and isinstance(arguments[0], types.Array):
        arguments = arguments[1:]
    return all(isinstance(each, _SCALARS) for each in arguments)


class _Inferer(_typeinfer.TypeInferer):  # type: ignore[misc]
    """Type inference for variables that are assigned several times."""

    def lock_type(self, name: str, kind: Any, loc: Any, **value: Any) -> None:
        if isinstance(kind, types.IntegerLiteral):  # a constant, which need not be all that the variable holds
            self.add_type(name, types.int64, loc)
        else:
            super().lock_type(name, kind, loc, **value)


@_machinery.register_pass(mutates_CFG=True, analysis_only=False)
class _TypeInference(_machinery.FunctionPass):  # type: ignore[misc]
    _name = "kernel_type_inference"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        """Infer the types of all variables, as Numba's pass of this name does for functions without fallback."""
        warnings = _errors.WarningsFixer(_errors.NumbaWarning)
        inferer = _Inferer(state.typingctx, state.func_ir, warnings)
        frame = state.typingctx.callstack.register(state.targetctx.target, inferer, state.func_id, state.args)
        with frame, warnings:
            for index, (name, kind) in enumerate(zip(state.func_ir.arg_names, state.args, strict=True)):
                inferer.seed_argument(name, index, kind)
            if state.return_type is not None:
                inferer.seed_return(state.return_type)
            inferer.build_constraint()
            inferer.propagate()
            state.typemap, state.return_type, state.calltypes = inferer.unify()
        _refuse_mixed_variables(state)
        return True


def _refuse_mixed_variables(state: Any) -> None:
    """Refuse variables that hold integers at some places and floats at others: all of them would be floats.

    Numba's own compiler tells such variables apart, by a pass that takes as long as all others before types are known.
    """
    for block in state.func_ir.blocks.values():
        for assignment in block.find_insts(ir.Assign):
            name, value = assignment.target.name, assignment.value
            if not isinstance(state.typemap[name], types.Float):
                continue
            signature = state.calltypes.get(value) if isinstance(value, ir.Expr) else None
            given = state.typemap[value.name] if isinstance(value, ir.Var) else getattr(signature, "return_type", None)
            if isinstance(given, types.Integer):
                raise errors.TypingError(f"'{name}' holds integers and floats; use two variables", assignment.loc)


class _KernelLibrary(_codegen.JITCodeLibrary):  # type: ignore[misc]
    """Code of a kernel, optimised once with all it calls."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    _speed_level = 3

    def _optimize_final_module(self) -> None:
        options = _llvm.create_pipeline_tuning_options(speed_level=self._speed_level)
        options.loop_vectorization = self._speed_level > 1
        # Loops of kernels are short, or wait for memory: several copies of their bodies take longer to compile and to
        # load, and are no faster.
        options.loop_unrolling = options.loop_interleaving = options.slp_vectorization = False
        builder = _llvm.create_pass_builder(self._codegen._tm, options)
        builder.getModulePassManager().run(self._final_module, builder)


class _BuildLibrary(_KernelLibrary):
    """Code of a kernel of index building."""

    _speed_level = 1


class _InlinedLibrary(_KernelLibrary):
    """Code of an inlined function, which is linked into kernels and never run by itself."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True


@_machinery.register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(_typed.NativeLowering):  # type: ignore[misc]
    _name = "kernel_lowering"
    _library: Any = _KernelLibrary

    def run_pass(self, state: Any) -> bool:
        is_inlined = state.flags.no_cpython_wrapper
        library = (_InlinedLibrary if is_inlined else self._library)(
            state.targetctx.codegen(), state.func_id.func_qualname
        )
        library.enable_object_caching()
        state.library = library
        if is_inlined:
            state.targetctx.get_executable = _placeholder  # of the copy of the context that this function has
        return bool(super().run_pass(state))


@_machinery.register_pass(mutates_CFG=True, analysis_only=False)
class _BuildLowering(_Lowering):
    _name = "build_kernel_lowering"
    _library = _BuildLibrary


def _placeholder(library: Any, description: Any, environment: Any) -> Any:
    """What stands for the function in Python where there is no machine code for it."""
    library._ensure_finalized()
    name = description.qualname.rpartition(".")[2]
    return _dynfunc.make_function(description.lookup_module(), name, "inlined", _NOWHERE, environment, (library,))


_overloads: Final = _Overloads()
_NOWHERE: Final = 1  # an address that nobody calls
