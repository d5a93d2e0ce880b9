/* shape.c - what a sample of a set looks like, without opening files where that is known beforehand. */
#include "data/split.h"

/* The agents' own files need not be here: they are laid out as the test samples are. */
static fault shape_of_test(const struct data_settings *settings, const struct set_row *row,
                           struct sample_shape *out)
{
    struct loaded l = {.test = {.on_disk = settings->stream}};
    fault f = row->read_test(row, &settings->set, &l);
    if (!f)
        *out = (struct sample_shape){l.test.c, l.test.h, l.test.w, l.classes};
    intake_close(&l.test);
    return f;
}

fault dataset_shape(const struct data_settings *settings, struct sample_shape *out)
{
    const struct set_row *row = settings->set.kind->row;
    if (row->known) {
        *out = row->known->layout == LAYOUT_IDX ? (struct sample_shape){1, 28, 28, row->known->classes}
                                                : (struct sample_shape){3, 32, 32, row->known->classes};
        return OK;
    }
    if (split_is_files(settings) && row->read_test)
        return shape_of_test(settings, row, out);
    struct dataset *d;
    TRY(dataset_open(settings, 0, &d));
    *out = (struct sample_shape){d->train.c, d->train.h, d->train.w, d->train.classes};
    dataset_close(d);
    return OK;
}
