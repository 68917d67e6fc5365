#include "runtime/transport.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "job/test_folder.h"
#include "runtime/thread_ranks.h"

namespace graphpipe {
namespace {

at::Tensor bytes(std::int64_t n, int value) { return at::full({n}, value, at::kByte); }

void run_connected(int ranks, double timeout_s, const std::function<void(Transport&)>& body) {
  auto transports = connect_threads(ranks, timeout_s);
  run_thread_ranks(transports, body);
}

TEST(Transport, MessagesMatchByTagInAnyOrder) {
  run_connected(2, 10, [](Transport& transport) {
    constexpr int kMessages = 50;
    std::vector<std::unique_ptr<PendingMessage>> pending;
    std::vector<at::Tensor> received;
    for (int i = 0; i < kMessages; ++i) {
      if (transport.rank() == 0) {
        pending.push_back(transport.start_send(bytes(64, i), 1, i));
      } else {
        received.push_back(bytes(64, 255));
        pending.push_back(transport.post_receive(received.back(), 0, kMessages - 1 - i));
      }
    }
    for (const auto& message : pending) message->wait();
    for (int i = 0; i < static_cast<int>(received.size()); ++i) {
      EXPECT_TRUE(received[static_cast<std::size_t>(i)].equal(bytes(64, kMessages - 1 - i))) << i;
    }
  });
}

TEST(Transport, BothDirectionsBetweenTwoRanksAtOnce) {
  run_connected(2, 10, [](Transport& transport) {
    const int peer = 1 - transport.rank();
    const at::Tensor received = bytes(1 << 20, 255);
    const auto receive = transport.post_receive(received, peer, 7);
    const auto send = transport.start_send(bytes(1 << 20, transport.rank()), peer, 7);
    send->wait();
    receive->wait();
    EXPECT_TRUE(received.equal(bytes(1 << 20, peer)));
  });
}

TEST(Transport, SumsGiveEveryRankTheSameBits) {
  std::vector<at::Tensor> sums(4);
  run_connected(4, 10, [&](Transport& transport) {
    at::Tensor values = at::empty({1000}, at::kDouble);
    for (std::int64_t i = 0; i < 1000; ++i) {
      values.data_ptr<double>()[i] = 1.0 / static_cast<double>(3 + i * (transport.rank() + 1));
    }
    transport.all_reduce_sum(values);
    sums[static_cast<std::size_t>(transport.rank())] = values;
  });
  for (const at::Tensor& values : sums) EXPECT_TRUE(values.equal(sums[0]));
  EXPECT_NEAR(sums[0][0].item<double>(), 4.0 / 3, 1e-12);
}

TEST(Transport, BarrierWaitsForAll) {
  std::atomic<int> arrived = 0;
  run_connected(3, 10, [&](Transport& transport) {
    ++arrived;
    transport.barrier();
    EXPECT_EQ(arrived, 3);
  });
}

TEST(Transport, ALostPeerIsNamed) {
  try {
    run_connected(2, 10, [](Transport& transport) {
      if (transport.rank() == 1) throw PeerError("gone");
      transport.post_receive(bytes(64, 0), 1, 0)->wait();
    });
    FAIL() << "a message arrived from a rank that is gone";
  } catch (const PeerError& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("rank 1: ")) << error.what();
  }
}

TEST(Transport, AMessageThatNeverComesEndsTheWait) {
  try {
    run_connected(2, 0.2, [](Transport& transport) {
      if (transport.rank() == 0) transport.post_receive(bytes(64, 0), 1, 0)->wait();
      if (transport.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(1));
    });
    FAIL() << "a message arrived that nobody sent";
  } catch (const PeerError& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("rank 1: Timed out waiting 200ms"))
        << error.what();
  }
}

TEST(Transport, GlooWaitsThroughOurEpollWait) {
  // What the dynamic linker gives to libgloo is the definition in this program.
  void* found = dlsym(RTLD_DEFAULT, "epoll_wait");
  Dl_info where{};
  ASSERT_NE(dladdr(found, &where), 0);
  EXPECT_EQ(std::filesystem::weakly_canonical(where.dli_fname),
            std::filesystem::read_symlink("/proc/self/exe"));
}

TEST(ConnectGloo, RanksFindEachOtherThroughTheFolder) {
  const TestFolder folder;
  std::atomic<int> sum = 0;
  std::vector<std::thread> ranks;
  for (const int rank : {2, 1, 0}) {
    ranks.emplace_back([&, rank] {
      const auto transport = connect_gloo(folder.path(), rank, 3, 10);
      const at::Tensor values = at::full({1}, rank + 1, at::kLong);
      transport->all_reduce_sum(values);
      sum += static_cast<int>(values.item<std::int64_t>());
      transport->barrier();
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(sum, 3 * 6);
}

TEST(ConnectGloo, SaysThatRank0NeverCame) {
  const TestFolder folder;
  try {
    connect_gloo(folder.path(), 1, 2, 0.1);
    FAIL() << "connected to nobody";
  } catch (const PeerError& error) {
    EXPECT_EQ(std::string(error.what()),
              "rank 0: published no port in " + folder.path() + "/port within 0.1 s");
  }
}

}  // namespace
}  // namespace graphpipe
