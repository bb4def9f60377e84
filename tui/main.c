/* anneal: runs a subcommand, or opens the workbench. The only file that ends the process. */
#include <locale.h>

#include "tui/command/command.h"
#include "tui/session/second_start.h"

int main(int argc, char **argv)
{
    second_start(argv);
    setlocale(LC_CTYPE, ""); /* numbers keep the C locale: '.' everywhere */
    return command_main(argc, argv);
}
