/* See signals.h. The one piece of process-wide state: a signal handler can reach nothing else. */
#include "tui/command/signals.h"

#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t noted;

static void note(int number)
{
    if (number == SIGINT && noted == SIGINT) _exit(130);
    noted = number;
}

void signals_catch(void)
{
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
}

int signals_noted(void)
{
    return noted;
}
