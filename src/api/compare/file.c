/* file.c - compare.json, and what can be said of a comparison from its folder. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/compare/compare.h"
#include "record/comparison.h"
#include "record/file.h"
#include "record/seal.h"

static bool exists(const char *folder, const char *name, const char *file)
{
    char path[FILE_PATH];
    int n = snprintf(path, sizeof path, "%s/%s%s%s", folder, name, *file ? "/" : "", file);
    return n > 0 && (size_t)n < sizeof path && access(path, F_OK) == 0;
}

bool comparison_is_folder(const char *folder)
{
    return exists(folder, COMPARE_FILE, "");
}

bool method_is_done(const struct method *m, const char *folder)
{
    return exists(folder, m->name, "summary.json");
}

/* ---- reading ---- */

static const char *text_of(struct run_schedule *p, const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? arena_text(&p->arena, text) : NULL;
}

/* A run's folder lies in the comparison's own. */
static bool is_plain_name(const char *name)
{
    return *name && *name != '.' && !strchr(name, '/');
}

static fault take_schedule(const json_t *object, const char *path, struct run_schedule *p)
{
    const json_t *methods = json_object_get(object, "methods"), *target = json_object_get(object, "target");
    p->name = text_of(p, object, "name");
    p->target = json_is_number(target) ? json_number_value(target) : NAN;
    p->n_ranks = (size_t)json_integer_value(json_object_get(object, "ranks")); /* none: 0 */
    p->methods = ARENA_NEW(&p->arena, struct method, json_array_size(methods) + 1);
    if (!p->methods)
        return OUT_OF_MEMORY;
    for (; p->n < json_array_size(methods); p->n++) {
        const json_t *m = json_array_get(methods, p->n);
        struct method method = {text_of(p, m, "method"), text_of(p, m, "run"), text_of(p, m, "experiment"),
                                text_of(p, m, "failure")};
        if (!method.label || !method.name || !method.yaml || !is_plain_name(method.name))
            return FAIL(FAULT_DATA, "%s: is not the file of a comparison: method %zu lacks something", path,
                        p->n + 1);
        p->methods[p->n] = method;
    }
    if (!p->name || p->n == 0)
        return FAIL(FAULT_DATA, "%s: is not the file of a comparison: it has no name or no methods", path);
    return OK;
}

fault schedule_read(const char *folder, struct run_schedule *out)
{
    char path[FILE_PATH], *text;
    size_t n;
    json_error_t error;
    struct run_schedule p = {.target = NAN};
    TRY(path_join(folder, COMPARE_FILE, sizeof path, path));
    TRY(file_read(path, &text, &n));
    const char *wrong = NULL;
    fault f = seal_check(&seal_of_object, text, n, &wrong);
    json_t *object = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
    free(text);
    if (!f && wrong)
        f = FAIL(FAULT_FILE, "%s: %s", path, wrong);
    if (!f)
        f = object ? take_schedule(object, path, &p)
                   : FAIL(FAULT_DATA, "%s: is not the file of a comparison: %s", path, error.text);
    json_decref(object);
    if (f)
        schedule_release(&p);
    else
        *out = p;
    return f;
}

/* ---- figures ---- */

struct figures {
    struct report report;     /* owned: of the methods that have been evaluated */
    struct compared *methods; /* owned: of all */
};

/* Of what is done all must be readable; a run that was only begun may have nothing to tell yet, but no file that is damaged. */
static fault has_figures(const struct method *m, const char *folder, const char *path, bool *out)
{
    struct report one;
    fault f = report_read(&path, 1, &one);
    *out = !f;
    if (!f)
        report_release(&one);
    else if (method_is_done(m, folder) ||
             (fault_kind_of(f) == FAULT_FILE && exists(folder, m->name, "experiment.yaml")))
        return f;
    fault_drop(f);
    return OK;
}

fault schedule_runs(const struct run_schedule *p, const char *folder, struct arena *arena, const char ***paths, size_t *n)
{
    const char **list = ARENA_NEW(arena, const char *, p->n);
    size_t found = 0;
    if (!list)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < p->n; i++) {
        bool has = false;
        list[found] = arena_printf(arena, "%s/%s", folder, p->methods[i].name);
        if (!list[found])
            return OUT_OF_MEMORY;
        TRY(has_figures(&p->methods[i], folder, list[found], &has));
        found += has;
    }
    *paths = list;
    *n = found;
    return OK;
}

static struct report_run *run_of(struct report *r, const struct method *m)
{
    for (size_t i = 0; i < r->n; i++) {
        const char *slash = strrchr(r->runs[i].path, '/');
        if (slash && strcmp(slash + 1, m->name) == 0)
            return &r->runs[i];
    }
    return NULL;
}

static fault read_figures(const struct run_schedule *p, const char *folder, struct figures *out)
{
    struct arena arena = {0};
    struct figures g = {.methods = calloc(p->n, sizeof *g.methods)};
    const char **paths;
    size_t n = 0;
    fault f = !g.methods ? OUT_OF_MEMORY : folder ? schedule_runs(p, folder, &arena, &paths, &n) : OK;
    if (!f && n)
        f = report_read(paths, n, &g.report);
    arena_release(&arena);
    if (f) {
        free(g.methods);
        return f;
    }
    report_set_target(&g.report, p->target);
    for (size_t i = 0; i < p->n; i++) {
        const struct method *m = &p->methods[i];
        struct report_run *run = run_of(&g.report, m);
        if (run)
            run->label = m->label;
        g.methods[i] = (struct compared){m->label, m->failure, run, folder && method_is_done(m, folder)};
    }
    *out = g;
    return OK;
}

static void figures_release(struct figures *g)
{
    report_release(&g->report);
    free(g->methods);
}

fault schedule_table(const struct run_schedule *p, const char *folder, char **out)
{
    struct figures g;
    TRY(read_figures(p, folder, &g));
    fault f = comparison_table(g.methods, p->n, p->target, p->n_ranks > 0, out);
    figures_release(&g);
    return f;
}

/* What the page must say of methods that are not on it or not done. */
static const char *remark(const struct run_schedule *p, const struct figures *g, struct arena *arena)
{
    const char *text = "";
    for (size_t i = 0; i < p->n && text; i++) {
        const struct compared *m = &g->methods[i];
        if (m->failure)
            text = arena_printf(arena, "%s%s failed: %s. ", text, m->method, m->failure);
        else if (!m->done)
            text = arena_printf(arena, "%s%s is not done. ", text, m->method);
    }
    return text && *text ? text : NULL;
}

fault schedule_page(const struct run_schedule *p, const char *folder)
{
    struct figures g;
    char path[FILE_PATH], *html = NULL;
    TRY(read_figures(p, folder, &g));
    fault f = OK;
    if (g.report.n) {
        g.report.remark = remark(p, &g, &g.report.arena);
        f = report_html(&g.report, AXIS_SECONDS, &html);
    }
    if (!f && html)
        f = path_join(folder, "report.html", sizeof path, path);
    if (!f && html)
        f = file_replace(path, &(struct piece){html, strlen(html)}, 1);
    free(html);
    figures_release(&g);
    return f;
}

/* ---- writing ---- */

static json_t *method_object(const struct method *m, const struct compared *c, bool whole)
{
    json_t *object = comparison_figures(c);
    if (!object || json_object_set_new(object, "run", json_string(m->name)) != 0 ||
        (whole && json_object_set_new(object, "experiment", json_string(m->yaml)) != 0)) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_t *schedule_object(const struct run_schedule *p, const char *folder, const struct figures *g, bool whole)
{
    json_t *methods = json_array();
    for (size_t i = 0; i < p->n; i++)
        if (json_array_append_new(methods, method_object(&p->methods[i], &g->methods[i], whole)) != 0) {
            json_decref(methods);
            return NULL;
        }
    return json_pack("{s:s, s:s, s:s*, s:o, s:o, s:o}", "veche", VECHE_VERSION, "name", p->name, "folder",
                     whole ? NULL : folder, "target",
                     isfinite(p->target) ? json_real(p->target) : json_null(), "ranks",
                     p->n_ranks ? json_integer((json_int_t)p->n_ranks) : json_null(), "methods", methods);
}

fault schedule_text(const struct run_schedule *p, const char *folder, bool whole, char **out)
{
    struct figures g;
    TRY(read_figures(p, folder, &g));
    json_t *object = schedule_object(p, folder, &g, whole);
    figures_release(&g);
    char *text = json_dumps(object, JSON_REAL_PRECISION(15) | (whole ? JSON_INDENT(2) : 0));
    json_decref(object);
    if (!text)
        return OUT_OF_MEMORY;
    if (!whole) {
        *out = text;
        return OK;
    }
    fault f = seal_text(&seal_of_object, text, out);
    free(text);
    return f;
}
