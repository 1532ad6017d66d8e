#include "src/data/document_line.h"

#include <algorithm>

#include "kernels/common/error.h"
#include "kernels/common/fault.h"
#include "kernels/common/hash.h"

#include "src/data/permutation.h"

namespace ogrom {

namespace {

// Fixed: the same documents are held out in every run over the same set.
constexpr u64 held_out_salt = 0x6f67726f6d2d7631ULL;

bool belongs(const PartRule& rule, i64 document) {
    if (rule.keep == PartRule::Keep::all) {
        return true;
    }
    const u64 word = mix64(static_cast<u64>(document) + held_out_salt);
    const bool held_out = static_cast<double>(word >> 11) * 0x1p-53 < rule.fraction;
    return held_out == (rule.keep == PartRule::Keep::held_out);
}

}  // namespace

struct DocumentLine::EpochOrder {
    i64 epoch;
    Permutation shuffle;
    std::vector<i64> start;  // [documents + 1] first token of the document at each place of the line
};

DocumentLine::DocumentLine(const std::string& prefix, PartRule rule, LineOrder order, u64 seed)
    : set_(prefix), order_(order), seed_(seed) {
    for (i64 d = 0; d < set_.documents(); ++d) {
        if (!belongs(rule, d)) {
            continue;
        }
        const i64 ids = set_.tokens_of(d);
        if (ids == 0) {
            ++empty_;
            continue;
        }
        // The list of documents starts at the first gap only.
        if (!chosen_.empty()) {
            chosen_.push_back(d);
        } else if (d != count_) {
            chosen_.resize(static_cast<std::size_t>(count_));
            for (i64 i = 0; i < count_; ++i) {
                chosen_[i] = i;
            }
            chosen_.push_back(d);
        }
        ++count_;
        tokens_ += ids;
    }
    // Both orders that are ever held exist from the start: nothing of size is taken when the second epoch begins.
    if (order_ == LineOrder::shuffled) {
        (void)order_of(1);
    }
    (void)order_of(0);
}

i64 DocumentLine::index_bytes() const {
    const i64 orders = order_ == LineOrder::shuffled ? 2 : 1;
    return orders * 8 * (count_ + 1) + 8 * static_cast<i64>(chosen_.size());
}

std::shared_ptr<const DocumentLine::EpochOrder> DocumentLine::order_of(i64 epoch) const {
    if (order_ == LineOrder::file) {
        epoch = 0;
    }
    const std::lock_guard guard(lock_);
    for (const auto& known : recent_) {
        if (known && known->epoch == epoch) {
            return known;
        }
    }
    recent_[1] = std::move(recent_[0]);  // before the new one is made: two are held, never three
    const u64 seed = fault_active("sampler_epoch_not_shuffled_by_seed") ? 0 : seed_;
    auto made = std::make_shared<EpochOrder>(
        EpochOrder{epoch, Permutation(count_, seed, epoch, Permutation::Use::documents), {}});
    made->start.resize(static_cast<std::size_t>(count_ + 1));
    for (i64 i = 0; i < count_; ++i) {
        const i64 index = order_ == LineOrder::file ? i : made->shuffle(i);
        made->start[i + 1] = made->start[i] + set_.tokens_of(document_at(index));
    }
    recent_[0] = made;
    return made;
}

void DocumentLine::read(i64 epoch, i64 first, i64 count, i64 vocab, std::int32_t* out) const {
    OGROM_ASSERT(first >= 0 && count >= 0 && first + count <= tokens_);
    const auto order = order_of(epoch);
    const auto& start = order->start;
    i64 place = std::upper_bound(start.begin(), start.end(), first) - start.begin() - 1;
    while (count > 0) {
        const i64 document = document_at(order_ == LineOrder::file ? place : order->shuffle(place));
        const i64 take = std::min(count, start[place + 1] - first);
        read_checked(document, first - start[place], take, vocab, out);
        out += take;
        first += take;
        count -= take;
        ++place;
    }
}

void DocumentLine::read_checked(i64 document, i64 first, i64 count, i64 vocab, std::int32_t* out) const {
    set_.read(document, first, count, out);
    for (i64 i = 0; i < count; ++i) {
        if (out[i] < 0 || out[i] >= vocab) {
            fail_bad_id(set_.prefix(), document, first + i, out[i], vocab);
        }
    }
}

}  // namespace ogrom
