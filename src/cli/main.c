/* main.c - the table of contents: which command is asked for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static const struct command {
    const char *name, *words, *help;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"run", "FILE [key=value ...]", "train; a table at the end", cli_run},
    {"compare", "FILE [--over KEY=A,B,...]", "train by several methods; one table of them", cli_compare},
    {"check", "FILE [key=value ...]", "check and print the resolved experiment, run nothing", cli_check},
    {"list", "[CATEGORY]", "all names one may write, with their settings", cli_list},
    {"data", "list | get NAME | verify NAME", "data sets: what is here, fetch, verify", cli_data},
    {"topology", "SPEC [--json] [--svg FILE]", "a graph of agents: figures, weights, a drawing",
     cli_topology},
    {"graph", "FILE [--cut LAYER] [--svg FILE]", "a network: operations, parts, a drawing", cli_graph},
    {"plan", "FILE [key=value ...]", "the best cut of a network over these machines", cli_plan},
    {"resume", "RUN", "go on from the last checkpoint, or with a comparison", cli_resume},
    {"report", "RUN ... [--json] [--html FILE]", "tables and figures over runs", cli_report},
    {"bench", "KIND [key=value ...]", "figures as JSON: engine, local, mix or allreduce", cli_bench},
};

enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void print_help(FILE *out)
{
    fputs("veche - trains one network on many machines, by any method\n\n", out);
    for (size_t i = 0; i < N_COMMANDS; i++)
        fprintf(out, "  veche %-8s %-32s %s\n", commands[i].name, commands[i].words, commands[i].help);
    fputs("\n`veche COMMAND --help` tells more. Exit codes: 0 done, 1 a fault, 2 wrong usage.\n", out);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;
    cli_signals_open();
    if (!streams_open())
        return 1; /* and nowhere to say so */
    if (!name) {
        print_help(stderr);
        return 2;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-?") == 0 || strcmp(name, "-h") == 0 ||
        strcmp(name, "help") == 0) {
        print_help(stdout);
        return 0;
    }
    if (strcmp(name, "--version") == 0) {
        printf("veche %s\n", veche_version());
        return 0;
    }
    witness_begin();
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    fprintf(stderr, "veche: there is no command '%s'; `veche --help` lists them\n", name);
    return 2;
}

int cli_fault(veche_fault *f)
{
    if (!f)
        return 0;
    if (!veche_fault_is_told(f))
        fprintf(stderr, "veche: %s\n", veche_fault_text(f));
    veche_fault_free(f);
    return 1;
}

int cli_end(veche_fault *f)
{
    bool is_left = veche_fault_is_given_up(f);
    return cli_fault(f) && !is_left;
}

void cli_print(char *text)
{
    size_t n = strlen(text);
    fputs(text, stdout);
    if (n && text[n - 1] != '\n') /* an object has no end of line */
        putchar('\n');
    fflush(stdout);
    free(text);
}
