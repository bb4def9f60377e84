/* See interrupt.h. */
#include "tui/session/interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t caught;

static void note(int number)
{
    caught = number;
}

void interrupt_catch(void)
{
    /* SA_RESETHAND: the second signal has its default effect. Without SA_RESTART: a blocked read returns. */
    struct sigaction action = {.sa_handler = note, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool interrupt_requested(void)
{
    return caught != 0;
}

int interrupt_signal(void)
{
    return caught;
}
