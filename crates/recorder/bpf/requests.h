/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Requests to block devices. Included by recorder.bpf.c, whose helpers it uses. */
#ifndef PAGEWISE_REQUESTS_H
#define PAGEWISE_REQUESTS_H

// Requests that their device sent back because it was busy. The kernel issues them again.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, u64);
	__type(value, u8);
} requeued SEC(".maps");

// A request belongs to the cgroup to which its first page is charged, since a kernel thread may issue it; a request
// without pages belongs to the current process.
static __always_inline bool is_request_wanted(struct request *request)
{
	struct page *page = READ(READ(READ(request, bio), bi_io_vec), bv_page);

	return page && only_cgroup ? is_folio_wanted(folio_of(page)) : is_current_wanted();
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(block_request, struct request *request)
{
	u32 operation = READ(request, cmd_flags) & REQ_OP_MASK;
	struct gendisk *disk = READ(READ(request, q), disk);
	u64 key = (u64)request;
	bool is_again = !bpf_map_delete_elem(&requeued, &key);

	if (is_again || !is_request_wanted(request))
		return 0;
	hand_over((struct record){
		.kind = BLOCK,
		.process = current_process(),
		.address = READ(request, __sector),
		.object = READ(request, __data_len),
		.device = (u32)READ(disk, major) << 20 | READ(disk, first_minor),
		.flags = operation == REQ_OP_WRITE ? WRITES : operation ? IS_OTHER : 0,
	});
	return 0;
}

SEC("tp_btf/block_rq_requeue")
int BPF_PROG(block_request_back, struct request *request)
{
	u64 key = (u64)request;
	u8 is_back = 1;

	// Some drivers refuse a request before it is issued.
	if (READ(request, state) == MQ_RQ_IDLE)
		return 0;
	bpf_map_update_elem(&requeued, &key, &is_back, BPF_ANY);
	return 0;
}

#endif
