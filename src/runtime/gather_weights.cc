#include "runtime/gather_weights.h"

#include <ATen/ops/zeros.h>

#include <cstring>

namespace graphpipe {
namespace {

constexpr int kTag = 0;  // nothing else is on the way when training is over

}  // namespace

void gather_weights(Transport& transport, const std::string& own,
                    const std::function<void(int rank, const std::string&)>& take) {
  const at::Tensor sizes = at::zeros({transport.size()}, at::kLong);
  auto bytes_of = sizes.accessor<std::int64_t, 1>();
  bytes_of[transport.rank()] = static_cast<std::int64_t>(own.size());
  transport.all_reduce_sum(sizes);
  if (transport.rank() > 0) {
    const auto size = static_cast<std::int64_t>(own.size());
    transport
        .start_send(size, 0, kTag,
                    [&](std::byte* message) { std::memcpy(message, own.data(), own.size()); })
        ->wait();
    return;
  }
  for (int rank = 1; rank < transport.size(); ++rank) {
    const at::Tensor message = transport.post_receive(bytes_of[rank], rank, kTag)->wait();
    take(rank, {reinterpret_cast<const char*>(message.data_ptr<std::uint8_t>()),
                static_cast<std::size_t>(bytes_of[rank])});
  }
}

}  // namespace graphpipe
