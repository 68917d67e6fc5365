// Tags of messages: unlike for all that can be on the way between two ranks at one time. A
// channel's number, then the count of its messages, which comes round only after far more
// than are ever on the way.

#pragma once

#include <bit>
#include <cstdint>

namespace graphpipe {

class TagSpace {
 public:
  explicit TagSpace(std::int64_t channels)
      : count_bits_(kTagBits -
                    static_cast<int>(std::bit_width(static_cast<std::uint64_t>(channels)))) {}

  int tag(std::int64_t channel, std::int64_t count) const {
    return static_cast<int>((channel << count_bits_) |
                            (count & ((std::int64_t{1} << count_bits_) - 1)));
  }

 private:
  static constexpr int kTagBits = 31;  // tags are not negative
  int count_bits_;
};

}  // namespace graphpipe
