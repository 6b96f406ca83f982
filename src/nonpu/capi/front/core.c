/* The module nonpu._core is what cffi generates, behind a check: the library that the loader found for it must be the one
   it was built with. Another environment of this process may have loaded its own under the same name. */
#include <Python.h>

#include <string.h>

const char *nonpu_build(void);
PyObject *nonpu_core_init(void);    /* cffi's PyInit__core, renamed by a macro */
extern PyMethodDef nonpu_array_functions[];

PyMODINIT_FUNC PyInit__core(void)
{
    if (strcmp(nonpu_build(), NONPU_BUILD))
        return PyErr_Format(PyExc_ImportError, "nonpu._core: libascendcl.so must be build %s (got %s, from another installation of nonpu)",
                            NONPU_BUILD, nonpu_build());
    PyObject *module = nonpu_core_init();
    if (module && PyModule_AddFunctions(module, nonpu_array_functions))
        Py_CLEAR(module);
    return module;
}
