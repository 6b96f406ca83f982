/* NumPy arrays without a detour: what a one-call function needs of them at every call, read from their C structure.
   Compiled into nonpu._core; NumPy need not be importable until `arrays_are` has been called. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <numpy/ndarraytypes.h>

#include <stdint.h>
#include <string.h>

#include "native.h"

enum { OPERANDS = 6, RANKS = 8, WORDS = OPERANDS * (2 + 2 * RANKS),
       SHORT = 20000 /* nanoseconds of work for which the interpreter lock is kept */ };

static PyTypeObject *array_type;

static PyObject *arrays_are(PyObject *Py_UNUSED(module), PyObject *type)
{
    if (!PyType_Check(type))
        return PyErr_Format(PyExc_TypeError, "arrays_are: type must be a class (got %s)", Py_TYPE(type)->tp_name);
    Py_INCREF(type);
    Py_XSETREF(array_type, (PyTypeObject *)type);
    Py_RETURN_NONE;
}

/* layouts(*arrays) -> bytes: types, shapes and strides, to be compared with those of other calls. The type of the elements
   stands there by its address, so that whoever keeps the bytes must keep it. None: not all are plain arrays of the ranks
   that operators take. */
static PyObject *layouts(PyObject *Py_UNUSED(module), PyObject *const *arrays, Py_ssize_t count)
{
    int64_t words[WORDS];
    Py_ssize_t used = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyArrayObject *array = (PyArrayObject *)arrays[i];
        if (i >= OPERANDS || Py_TYPE(arrays[i]) != array_type || PyArray_NDIM(array) > RANKS)
            Py_RETURN_NONE;
        int rank = PyArray_NDIM(array);
        words[used++] = (int64_t)(intptr_t)PyArray_DESCR(array);
        words[used++] = rank;
        for (int axis = 0; axis < rank; axis++)
            words[used++] = PyArray_DIM(array, axis);
        for (int axis = 0; axis < rank; axis++)
            words[used++] = PyArray_STRIDE(array, axis);
    }
    return PyBytes_FromStringAndSize((const char *)words, used * (Py_ssize_t)sizeof *words);
}

/* run_on(ready, output, *inputs) -> bool: run a remembered call on arrays whose layouts are its own. False: nothing was
   done, because the output is read-only, or for a reason of nonpu_run_ready. */
static PyObject *run_on(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    uintptr_t addresses[OPERANDS] = { 0 };
    const nonpu_ready *ready = count ? PyLong_AsVoidPtr(arguments[0]) : NULL;
    if (!ready) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "run_on: ready must be the address of a remembered call");
        return NULL;
    }
    if (count - 1 != ready->launch.operands)
        return PyErr_Format(PyExc_TypeError, "run_on: the arrays must be %d (got %d)", (int)ready->launch.operands, (int)count - 1);
    for (Py_ssize_t i = 1; i < count; i++) {
        if (Py_TYPE(arguments[i]) != array_type)
            Py_RETURN_FALSE;
        addresses[i - 1] = (uintptr_t)PyArray_DATA((PyArrayObject *)arguments[i]);
    }
    if (!(PyArray_FLAGS((PyArrayObject *)arguments[1]) & NPY_ARRAY_WRITEABLE))
        Py_RETURN_FALSE;
    int failed;
    const uintptr_t *a = addresses;
    if (ready->launch.cost < SHORT) {
        failed = nonpu_run_ready(ready, a[0], a[1], a[2], a[3], a[4], a[5]);
    } else {
        Py_BEGIN_ALLOW_THREADS
        failed = nonpu_run_ready(ready, a[0], a[1], a[2], a[3], a[4], a[5]);
        Py_END_ALLOW_THREADS
    }
    return PyBool_FromLong(!failed);
}

PyMethodDef nonpu_array_functions[] = {
    { "arrays_are", arrays_are, METH_O, "Say which class NumPy's arrays have." },
    { "layouts", (PyCFunction)(void (*)(void))layouts, METH_FASTCALL, "Return types, shapes and strides of arrays as bytes." },
    { "run_on", (PyCFunction)(void (*)(void))run_on, METH_FASTCALL, "Run a remembered call on arrays." },
    { NULL, NULL, 0, NULL },
};
