/* fault.c - faults are heap objects, except the one that reports that the heap is empty. */
#include "base/fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fault_body {
    enum fault_kind kind;
    char text[];
};

static const struct {
    enum fault_kind kind;
    char text[16];
} out_of_memory = {FAULT_MEMORY, "out of memory"};

static const fault memory_fault = (const struct fault_body *)(const void *)&out_of_memory;

static fault fault_new(enum fault_kind kind, const char *head, const char *tail)
{
    size_t n_head = strlen(head), n_tail = strlen(tail);
    struct fault_body *f = malloc(sizeof *f + n_head + n_tail + 1);
    if (!f)
        return memory_fault;
    f->kind = kind;
    memcpy(f->text, head, n_head);
    memcpy(f->text + n_head, tail, n_tail + 1);
    return f;
}

fault fault_make(enum fault_kind kind, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return fault_new(kind, text, "");
}

fault fault_before(fault f, const char *format, ...)
{
    char head[512];
    va_list args;
    va_start(args, format);
    vsnprintf(head, sizeof head, format, args);
    va_end(args);
    fault longer = fault_new(f->kind, head, f->text);
    fault_drop(f);
    return longer;
}

enum fault_kind fault_kind_of(fault f)
{
    return f->kind;
}

const char *fault_text(fault f)
{
    return f->text;
}

const char *fault_kind_help(enum fault_kind k)
{
    static const char *const help[] = {
#define FAULT_HELP(name, text) [name] = text,
        FAULTS(FAULT_HELP)
#undef FAULT_HELP
    };
    return help[k];
}

void fault_drop(fault f)
{
    if (f && f != memory_fault)
        free((void *)f);
}
