// A queue in one block of memory, numbered from the first element ever pushed: it
// grows to the most elements that it ever holds and allocates nothing after that.

#pragma once

#include <cstdint>
#include <vector>

namespace graphpipe {

template <typename T>
class Ring {
 public:
  bool empty() const { return begin_ == end_; }
  std::int64_t begin() const { return begin_; }  // number of the first element held
  std::int64_t end() const { return end_; }      // one past that of the last
  // Requires: begin() <= i < end().
  T& operator[](std::int64_t i) { return items_[static_cast<std::size_t>(i) & mask_]; }
  const T& operator[](std::int64_t i) const { return items_[static_cast<std::size_t>(i) & mask_]; }

  void push(T item) {
    if (static_cast<std::size_t>(end_ - begin_) == items_.size()) grow();
    items_[static_cast<std::size_t>(end_++) & mask_] = item;
  }
  T pop() { return items_[static_cast<std::size_t>(begin_++) & mask_]; }

 private:
  void grow() {
    std::vector<T> larger(items_.empty() ? 4 : 2 * items_.size());
    for (std::int64_t i = begin_; i < end_; ++i) {
      larger[static_cast<std::size_t>(i) & (larger.size() - 1)] = (*this)[i];
    }
    items_.swap(larger);
    mask_ = items_.size() - 1;
  }

  std::vector<T> items_;  // a power of two, or none
  std::size_t mask_ = 0;
  std::int64_t begin_ = 0;
  std::int64_t end_ = 0;
};

}  // namespace graphpipe
