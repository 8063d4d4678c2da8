/* Buffers: contents through mapping and through staging, ranges, bytes held, failures. */
#include "fixture.h"

static const vkf_gpu_memory memories[] = {VKF_GPU_MEMORY_DEVICE, VKF_GPU_MEMORY_UPLOAD, VKF_GPU_MEMORY_READBACK};

/* More than two halves of staging, and no multiple of anything. */
enum { BYTES = (9 << 20) + 12 };

static void contents_survive(bool staged) {
  gpu fixture, *g = &fixture;
  open_gpu(g, &(vkf_gpu_device_params){.staged = staged, .hazard_log = true});
  uint8_t *data = malloc(BYTES), *back = malloc(BYTES);
  for (size_t i = 0; i < BYTES; ++i) data[i] = (uint8_t)vkf_rng_u64(7, 0, i);
  for (size_t m = 0; m < VKF_COUNT(memories); ++m) {
    vkf_gpu_buffer *buffer = make_buffer(g, "buffer", memories[m], BYTES);
    assert_int_equal(vkf_gpu_buffer_bytes(buffer), BYTES);
    assert_string_equal(buffer->name, "buffer");
    bool mapped = vkf_gpu_buffer_mapped(buffer) != NULL;
    assert_int_equal(mapped, memories[m] != VKF_GPU_MEMORY_DEVICE || vkf_gpu_device_caps(g->device)->host_visible);
    OK(vkf_gpu_buffer_write(buffer, 0, data, BYTES));
    memset(back, 0, BYTES);
    OK(vkf_gpu_buffer_read(buffer, 0, back, BYTES));
    assert_memory_equal(back, data, BYTES);
    /* Writing a part in the middle changes only that part. */
    OK(vkf_gpu_buffer_write(buffer, 1000, data, 7));
    OK(vkf_gpu_buffer_fill(buffer, 5 << 20, 400, 0x7fc00000));
    OK(vkf_gpu_buffer_read(buffer, 0, back, BYTES));
    assert_memory_equal(back + 1000, data, 7);
    assert_memory_equal(back + 1007, data + 1007, (5 << 20) - 1007);
    for (size_t i = 0; i < 400; i += 4) assert_int_equal(*(uint32_t *)(void *)(back + (5 << 20) + i), 0x7fc00000);
    assert_memory_equal(back + (5 << 20) + 400, data + (5 << 20) + 400, BYTES - (5 << 20) - 400);
    vkf_gpu_buffer_destroy(&buffer);
    assert_null(buffer);
  }
  vkf_gpu_hazard hazard;
  OK(vkf_gpu_hazard_check(g->device, &hazard));
  assert_string_equal(hazard.text, "");
  free(data);
  free(back);
  close_gpu(g);
}

static void mapped_contents(void **state) {
  (void)state;
  contents_survive(false);
}

static void staged_contents(void **state) {
  (void)state;
  contents_survive(true);
}

/* The ring is far smaller than what passes through it; the caller may overwrite its data at once. */
static void a_small_ring(void **state) {
  (void)state;
  gpu fixture, *g = &fixture;
  open_gpu(g, &(vkf_gpu_device_params){.staged = true, .ring_bytes = 4096, .hazard_log = true});
  enum { ALL = 100003, PIECE = 5000 };
  uint8_t *back = malloc(ALL), piece[PIECE], other[64];
  vkf_gpu_buffer *buffer = make_buffer(g, "a", VKF_GPU_MEMORY_DEVICE, ALL),
                 *second = make_buffer(g, "b", VKF_GPU_MEMORY_DEVICE, 64);
  for (size_t at = 0, n, i = 0; at < ALL; at += n, ++i) {
    n = 1 + vkf_rng_u64(9, 1, i) % PIECE;
    n = n < ALL - at ? n : ALL - at;
    for (size_t k = 0; k < n; ++k) piece[k] = (uint8_t)vkf_rng_u64(9, 0, at + k);
    OK(vkf_gpu_buffer_upload(buffer, at, piece, n));
    memset(piece, 0, sizeof(piece));
  }
  memset(other, 7, sizeof(other));
  OK(vkf_gpu_buffer_upload(second, 0, other, sizeof(other)));
  OK(vkf_gpu_buffer_fill(second, 4, 8, 0)); /* after uploads that are still on their way */
  OK(vkf_gpu_buffer_read(buffer, 0, back, ALL));
  for (size_t i = 0; i < ALL; ++i) assert_int_equal(back[i], (uint8_t)vkf_rng_u64(9, 0, i));
  OK(vkf_gpu_buffer_upload(buffer, 10, other, 3));
  OK(vkf_gpu_upload_finish(g->device));
  OK(vkf_gpu_buffer_read(second, 0, back, 64));
  assert_true(back[3] == 7 && back[4] == 0 && back[11] == 0 && back[12] == 7);
  vkf_gpu_hazard hazard;
  OK(vkf_gpu_hazard_check(g->device, &hazard));
  assert_string_equal(hazard.text, "");
  OK(vkf_gpu_buffer_upload(buffer, 0, other, 64)); /* on its way while its buffer is destroyed */
  vkf_gpu_buffer_destroy(&buffer);
  vkf_gpu_buffer_destroy(&second);
  free(back);
  close_gpu(g);
}

static vkf_status small_allocations(void *user, vkf_caps *caps) {
  (void)user;
  caps->max_allocation_bytes = 8190;
  return VKF_OK;
}

/* Both halves of the ring are one allocation. */
static void a_ring_fits_an_allocation(void **state) {
  (void)state;
  enum { ALL = 8000 };
  gpu fixture, *g = &fixture;
  open_gpu(g, &(vkf_gpu_device_params){.staged = true, .lower = small_allocations});
  uint8_t data[ALL], back[ALL];
  for (size_t i = 0; i < ALL; ++i) data[i] = (uint8_t)vkf_rng_u64(9, 0, i);
  vkf_gpu_buffer *buffer = make_buffer(g, "a", VKF_GPU_MEMORY_DEVICE, ALL);
  OK(vkf_gpu_buffer_write(buffer, 0, data, ALL));
  OK(vkf_gpu_buffer_read(buffer, 0, back, ALL));
  assert_memory_equal(back, data, ALL);
  vkf_gpu_buffer_destroy(&buffer);
  close_gpu(g);
}

static void ranges_are_checked(void **state) {
  (void)state;
  gpu fixture, *g = &fixture;
  open_gpu(g, NULL);
  vkf_gpu_buffer *none, *buffer = make_buffer(g, "small", VKF_GPU_MEMORY_DEVICE, 64);
  uint8_t bytes[128] = {0};
  REFUSED(VKF_ERROR_ARGUMENT, "small", vkf_gpu_buffer_write(buffer, 1, bytes, 64));
  REFUSED(VKF_ERROR_ARGUMENT, "small", vkf_gpu_buffer_read(buffer, 65, bytes, 0));
  REFUSED(VKF_ERROR_ARGUMENT, "small", vkf_gpu_buffer_write(buffer, UINT64_MAX, bytes, 2));
  REFUSED(VKF_ERROR_ARGUMENT, "whole words", vkf_gpu_buffer_fill(buffer, 2, 4, 0));
  REFUSED(VKF_ERROR_ARGUMENT, "empty", vkf_gpu_buffer_create(g->device, "empty", VKF_GPU_MEMORY_DEVICE, 0, &none));
  OK(vkf_gpu_buffer_write(buffer, 64, bytes, 0));
  vkf_gpu_buffer_destroy(&buffer);
  vkf_gpu_buffer_destroy(&buffer); /* NULL by now */
  close_gpu(g);
}

static void bytes_are_counted(void **state) {
  (void)state;
  gpu fixture, *g = &fixture;
  open_gpu(g, NULL);
  uint64_t now, peak;
  vkf_gpu_buffer *a = make_buffer(g, "a", VKF_GPU_MEMORY_DEVICE, 1 << 20);
  vkf_gpu_buffer *b = make_buffer(g, "b", VKF_GPU_MEMORY_UPLOAD, 1 << 18);
  vkf_gpu_device_memory(g->device, &now, &peak);
  assert_true(now >= (1 << 20) + (1 << 18) && now < (1 << 20) + (1 << 18) + 8192);
  assert_int_equal(peak, now);
  vkf_gpu_buffer_destroy(&a);
  uint64_t later, later_peak;
  vkf_gpu_device_memory(g->device, &later, &later_peak);
  assert_true(later <= now - (1 << 20));
  assert_int_equal(later_peak, peak);
  vkf_gpu_buffer_destroy(&b);
  close_gpu(g);
}

static void device_memory_runs_out(void **state) {
  (void)state;
  gpu fixture, *g = &fixture;
  open_gpu(g, &(vkf_gpu_device_params){.staged = true});
  uint64_t before, after;
  vkf_gpu_buffer *first = make_buffer(g, "first", VKF_GPU_MEMORY_DEVICE, 4096), *second = NULL;
  vkf_gpu_device_memory(g->device, &before, NULL);
  vkf_gpu_inject(g->device, &(vkf_gpu_faults){.fail_allocation = 1});
  REFUSED(VKF_ERROR_DEVICE_MEMORY, "12345 bytes wanted for second",
          vkf_gpu_buffer_create(g->device, "second", VKF_GPU_MEMORY_DEVICE, 12345, &second));
  assert_null(second);
  vkf_gpu_device_memory(g->device, &after, NULL);
  assert_int_equal(before, after);
  /* Staging needs memory, too. */
  uint32_t word = 5;
  vkf_gpu_inject(g->device, &(vkf_gpu_faults){.fail_allocation = 1});
  REFUSED(VKF_ERROR_DEVICE_MEMORY, "staging", vkf_gpu_buffer_write(first, 0, &word, 4));
  OK(vkf_gpu_buffer_write(first, 0, &word, 4));
  /* The second from now, not the first. */
  vkf_gpu_inject(g->device, &(vkf_gpu_faults){.fail_allocation = 2});
  second = make_buffer(g, "second", VKF_GPU_MEMORY_DEVICE, 64);
  vkf_gpu_buffer *third = NULL;
  REFUSED(VKF_ERROR_DEVICE_MEMORY, "third",
          vkf_gpu_buffer_create(g->device, "third", VKF_GPU_MEMORY_DEVICE, 64, &third));
  vkf_gpu_buffer_destroy(&second);
  vkf_gpu_buffer_destroy(&first);
  close_gpu(g);
}

static void more_than_one_allocation_may_have(void **state) {
  (void)state;
  gpu fixture, *g = &fixture;
  open_gpu(g, NULL);
  vkf_gpu_buffer *buffer = NULL;
  uint64_t bytes = vkf_gpu_device_caps(g->device)->max_allocation_bytes;
  if (bytes == UINT64_MAX) {
    close_gpu(g);
    skip();
  }
  REFUSED(VKF_ERROR_DEVICE_MEMORY, "huge",
          vkf_gpu_buffer_create(g->device, "huge", VKF_GPU_MEMORY_DEVICE, bytes + 1, &buffer));
  close_gpu(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(mapped_contents),        cmocka_unit_test(staged_contents),
      cmocka_unit_test(a_small_ring),           cmocka_unit_test(a_ring_fits_an_allocation),
      cmocka_unit_test(ranges_are_checked),     cmocka_unit_test(bytes_are_counted),
      cmocka_unit_test(device_memory_runs_out), cmocka_unit_test(more_than_one_allocation_may_have),
  };
  return RUN(tests);
}
