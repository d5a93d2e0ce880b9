/* sort.c - heapsort (Williams 1964).
 *
 *   heap:  numbers[k] >= numbers[2k + 1], numbers[2k + 2]
 *
 * The largest is at the top; it changes places with the last, and the heap is one shorter.
 */
#include "base/sort.h"

/* The heap of n is one but for its number at `k`, which may be too small for its place. */
static void sink(uint64_t *heap, size_t n, size_t k)
{
    uint64_t sinking = heap[k];
    for (size_t below; (below = 2 * k + 1) < n; k = below) {
        if (below + 1 < n && heap[below + 1] > heap[below])
            below++;
        if (heap[below] <= sinking)
            break;
        heap[k] = heap[below];
    }
    heap[k] = sinking;
}

void sort_rising(uint64_t *numbers, size_t n)
{
    for (size_t k = n / 2; k > 0; k--)
        sink(numbers, n, k - 1);
    for (size_t last = n; last > 1; last--) {
        uint64_t largest = numbers[0];
        numbers[0] = numbers[last - 1];
        numbers[last - 1] = largest;
        sink(numbers, last - 1, 0);
    }
}
