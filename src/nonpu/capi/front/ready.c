/* Calls that were judged before: the same launch on other addresses of the same layout. */
#include <stdlib.h>
#include <string.h>

#include "front.h"

/* Whether an input shares memory with the output, and not just as its very elements where the plan allows for that. */
static int disturbs(const nonpu_ready *ready, int64_t index, uintptr_t output, uintptr_t input)
{
    int apart = (int64_t)(input + ready->low[index]) >= (int64_t)(output + ready->high[0])
             || (int64_t)(output + ready->low[0]) >= (int64_t)(input + ready->high[index]);
    return !apart && (ready->apart || input != output || !ready->same_layout[index]);
}

int32_t nonpu_run_ready(const nonpu_ready *ready, uintptr_t output, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d,
                        uintptr_t e)
{
    const uintptr_t addresses[6] = { output, a, b, c, d, e };
    const char *product = getenv("NONPU_PRODUCT");
    if (!ready->any_product && strncmp(product ? product : "", ready->product, sizeof ready->product))
        return 1;
    nonpu_launch launch = ready->launch;
    for (int64_t i = 0; i < launch.operands; i++) {
        if (i && disturbs(ready, i, output, addresses[i]))
            return 1;
        launch.operand[i].data = addresses[i] + ready->start[i];
    }
    return nonpu_run(&launch) != 0;
}
