/* identity.c - what a run is of, in digests: the same on all ranks, and the same when a run goes on.
 *
 *   data_sha256   the test samples and all training samples; or, where each agent has a file of its own,
 *                 the test samples and share_sha256 of every agent, since no process need see the others' files
 */
#include "api/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"
#include "base/text.h"

static bool has_files(const struct veche_run *r)
{
    return strcmp(r->experiment->data.split.kind->name, "files") == 0;
}

/* The shares go into the digest of the test samples. */
static fault add_shares(struct veche_run *r)
{
    struct sha256 h;
    if (!r->share_sha256)
        return OK;
    TRY(sha256_open(&h));
    sha256_add(&h, r->data_sha256, sizeof r->data_sha256);
    sha256_add(&h, r->share_sha256, (size_t)r->experiment->agents * sizeof *r->share_sha256);
    sha256_close(&h, r->data_sha256);
    return OK;
}

/* Of what this process has read. */
static fault digest_here(struct veche_run *r)
{
    size_t agents = (size_t)r->experiment->agents;
    if (!has_files(r))
        return dataset_digest(r->dataset, true, r->data_sha256);
    r->share_sha256 = calloc(agents, sizeof *r->share_sha256);
    if (!r->share_sha256)
        return OUT_OF_MEMORY;
    for (size_t i = 0; i < agents; i++)
        TRY(dataset_share_digest(r->dataset, i, r->share_sha256[i]));
    return dataset_digest(r->dataset, false, r->data_sha256);
}

fault session_digest(struct veche_run *r)
{
    TRY(digest_here(r));
    return add_shares(r);
}

/* Each agent's own word on its file. */
static fault gather_shares(struct veche_run *r, double patience_s)
{
    size_t agents = (size_t)r->experiment->agents, rank = r->ranks.self;
    char *all;
    if (!r->share_sha256)
        return OK;
    TRY(world_gather_texts(&r->ranks, r->share_sha256[rank < agents ? rank : 0], SHA256_HEX, patience_s,
                           &all));
    memcpy(r->share_sha256, all, agents * SHA256_HEX);
    free(all);
    return add_shares(r);
}

static fault digest_experiment(const struct veche_run *r, char hex[SHA256_HEX])
{
    char *yaml;
    TRY(experiment_print(r->experiment, &yaml));
    fault f = sha256_of(yaml, strlen(yaml), hex);
    free(yaml);
    return f;
}

fault session_compare_ranks(struct veche_run *r)
{
    double patience = r->experiment->network.patience_s;
    char experiment[SHA256_HEX], model[128];
    fault f = digest_here(r);
    TRY(world_agree(&r->ranks, f ? f : digest_experiment(r, experiment), patience));
    TRY(world_compare(&r->ranks, "version of veche", veche_version(), patience));
    TRY(world_compare(&r->ranks, "experiment", experiment, patience));
    TRY(world_compare(&r->ranks, "data set", r->data_sha256, patience));
    snprintf(model, sizeof model, "%.80s with %zu parameters", r->graph->name, r->graph->size);
    TRY(world_compare(&r->ranks, "model", model, patience));
    return gather_shares(r, patience);
}

/* ---- the same as before ---- */

/* Of agents with files of their own the first whose file is another one is named. */
static fault other_data(const struct veche_run *r, const struct resumption *from, const char *was)
{
    for (size_t i = 0; r->share_sha256 && i < (size_t)r->experiment->agents; i++) {
        char key[32];
        snprintf(key, sizeof key, "data.%zu", i);
        const char *share = tensors_metadata(&from->checkpoint, key);
        if (share && !text_is(share, r->share_sha256[i]))
            return FAIL(FAULT_USAGE,
                        "%s: data.split.files: the file of agent %zu does not hold the samples the run was "
                        "trained on so far; "
                        "with other data begin a new run",
                        from->folder.path, i);
    }
    return FAIL(FAULT_USAGE,
                "%s: data.set: these are not the samples the run was trained on so far (their SHA-256 is "
                "%.12s..., not %.12s...); "
                "with other data begin a new run",
                from->folder.path, r->data_sha256, was);
}

fault session_is_same(const struct veche_run *r, const struct resumption *from)
{
    const char *data = tensors_metadata(&from->checkpoint, "data"),
               *engine = tensors_metadata(&from->checkpoint, "engine");
    const char *here = r->engine->ops->name;
    bool shares_change = from->regroups && r->share_sha256;
    if (!shares_change && (!data || !text_is(data, r->data_sha256)))
        return other_data(r, from, data ? data : "");
    if (!engine || !text_is(engine, here))
        return FAIL(FAULT_USAGE,
                    "%s: engine.kind: the run was trained by the engine '%s' so far, and would be by '%s', "
                    "which has other bits; go on "
                    "with engine.kind=%s, or begin a new run",
                    from->folder.path, engine ? engine : "", here, engine ? engine : "");
    return OK;
}
