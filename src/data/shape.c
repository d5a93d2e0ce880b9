/* shape.c - what a sample of a set looks like, without opening files where that is known beforehand. */
#include "data/sets.h"

fault dataset_shape(const struct data_settings *settings, struct sample_shape *out)
{
    const struct set_row *row = settings->set.kind->row;
    if (row->known) {
        *out = row->known->layout == LAYOUT_IDX ? (struct sample_shape){1, 28, 28, row->known->classes}
                                                : (struct sample_shape){3, 32, 32, row->known->classes};
        return OK;
    }
    struct dataset *d;
    TRY(dataset_open(settings, 0, &d));
    *out = (struct sample_shape){d->train.c, d->train.h, d->train.w, d->train.classes};
    dataset_close(d);
    return OK;
}
