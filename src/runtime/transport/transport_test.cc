#include "runtime/transport/transport.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "base/counter_random.h"
#include "job/test_folder.h"
#include "runtime/counting_allocator.h"
#include "runtime/thread_ranks.h"
#include "runtime/transport/shared_memory.h"

namespace graphpipe {
namespace {

at::Tensor bytes(std::int64_t n, int value) { return at::full({n}, value, at::kByte); }

Transport::Pack packed(const at::Tensor& bytes) {
  return [bytes](std::byte* message) {
    std::memcpy(message, bytes.data_ptr(), static_cast<std::size_t>(bytes.numel()));
  };
}

std::unique_ptr<PendingSend> send(Transport& transport, const at::Tensor& bytes, int peer,
                                  int tag) {
  return transport.start_send(bytes.numel(), peer, tag, packed(bytes));
}

void sleep_s(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

class OfEachKind : public testing::TestWithParam<TransportKind> {
 protected:
  static void run_connected(int ranks, double timeout_s,
                            const std::function<void(Transport&)>& body) {
    auto transports = connect_threads(ranks, timeout_s, GetParam());
    run_thread_ranks(transports, body);
  }
  // What a run fails with.
  static std::string failure(int ranks, double timeout_s,
                             const std::function<void(Transport&)>& body) {
    try {
      run_connected(ranks, timeout_s, body);
    } catch (const RunError& error) {
      return error.what();
    }
    return "";
  }
};

INSTANTIATE_TEST_SUITE_P(Transport, OfEachKind,
                         testing::Values(TransportKind::kAuto, TransportKind::kGloo),
                         [](const auto& kind) { return std::string(transport_name(kind.param)); });

TEST_P(OfEachKind, MessagesMatchByTagInAnyOrder) {
  for (const double late_s : {0.0, 0.05}) {  // the sends first; the receives first
    run_connected(2, 10, [&](Transport& transport) {
      constexpr int kMessages = 50;
      if (transport.rank() == 0) {
        sleep_s(late_s);
        std::vector<std::unique_ptr<PendingSend>> sends;
        for (int i = 0; i < kMessages; ++i) sends.push_back(send(transport, bytes(64, i), 1, i));
        for (const auto& message : sends) message->wait();
        return;
      }
      sleep_s(0.05 - late_s);
      std::vector<std::unique_ptr<PendingReceive>> receives;
      for (int i = kMessages - 1; i >= 0; --i) receives.push_back(transport.post_receive(64, 0, i));
      for (int i = kMessages - 1; i >= 0; --i) {
        const auto& receive = receives[static_cast<std::size_t>(kMessages - 1 - i)];
        EXPECT_TRUE(receive->wait().equal(bytes(64, i))) << i;
      }
    });
  }
}

TEST_P(OfEachKind, BothDirectionsBetweenTwoRanksAtOnce) {
  run_connected(2, 10, [](Transport& transport) {
    const int peer = 1 - transport.rank();
    const auto receive = transport.post_receive(1 << 20, peer, 7);
    const auto sent = send(transport, bytes(1 << 20, transport.rank()), peer, 7);
    sent->wait();
    EXPECT_TRUE(receive->wait().equal(bytes(1 << 20, peer)));
  });
}

TEST_P(OfEachKind, AMessageOutlivesLaterOnes) {
  run_connected(2, 10, [](Transport& transport) {
    std::vector<at::Tensor> kept;
    for (int i = 0; i < 20; ++i) {
      if (transport.rank() == 0) {
        send(transport, bytes(1000, i), 1, 3)->wait();
      } else {
        kept.push_back(transport.post_receive(1000, 0, 3)->wait());
      }
    }
    for (std::size_t i = 0; i < kept.size(); ++i) {
      EXPECT_TRUE(kept[i].equal(bytes(1000, static_cast<int>(i)))) << i;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(kept[i].data_ptr()) % 64, 0U);
    }
  });
}

TEST_P(OfEachKind, ASendIsCompleteOnlyOnceItsReceiveIsPosted) {
  std::atomic<bool> posted = false;
  run_connected(2, 10, [&](Transport& transport) {
    if (transport.rank() == 0) {
      send(transport, bytes(64, 1), 1, 0)->wait();
      EXPECT_TRUE(posted);
    } else {
      sleep_s(0.1);
      posted = true;
      transport.post_receive(64, 0, 0)->wait();
    }
  });
}

// Sizes, tags and moments by chance: whatever meets whatever first, all arrives.
TEST_P(OfEachKind, ManyMessagesInManyOrders) {
  constexpr int kRanks = 3;
  constexpr int kMessages = 300;
  run_connected(kRanks, 20, [](Transport& transport) {
    const CounterRandom random(7);
    const auto size = [&](int from, int to, int i) {
      const auto draw = static_cast<std::uint64_t>((from * kRanks + to) * kMessages + i);
      return static_cast<std::int64_t>(1 + random.below(draw, 3) * 40'000);
    };
    std::vector<std::unique_ptr<PendingSend>> sends;
    std::vector<std::unique_ptr<PendingReceive>> receives;
    std::vector<at::Tensor> expected;
    const int rank = transport.rank();
    for (int i = 0; i < kMessages; ++i) {
      for (int peer = 0; peer < kRanks; ++peer) {
        if (peer == rank) continue;
        const int tag = (i * 7) % kMessages;
        const auto draw =
            static_cast<std::uint64_t>(1'000'000 + (i * kRanks + rank) * kRanks + peer);
        const auto send_one = [&] {
          sends.push_back(send(transport, bytes(size(rank, peer, i), i % 251), peer, i));
        };
        if (random.below(draw, 2) == 0) send_one();
        receives.push_back(transport.post_receive(size(peer, rank, tag), peer, tag));
        expected.push_back(bytes(size(peer, rank, tag), tag % 251));
        if (random.below(draw, 2) != 0) send_one();
      }
    }
    for (std::size_t i = 0; i < receives.size(); ++i) {
      EXPECT_TRUE(receives[i]->wait().equal(expected[i])) << "rank " << rank << ", receive " << i;
    }
    for (const auto& one : sends) one->wait();
  });
}

TEST_P(OfEachKind, SumsGiveEveryRankTheSameBits) {
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

TEST_P(OfEachKind, BarrierWaitsForAll) {
  std::atomic<int> arrived = 0;
  run_connected(3, 10, [&](Transport& transport) {
    ++arrived;
    transport.barrier();
    EXPECT_EQ(arrived, 3);
  });
}

TEST_P(OfEachKind, ALostPeerIsNamedByWhoReceives) {
  const std::string error = failure(2, 10, [](Transport& transport) {
    if (transport.rank() == 1) throw PeerError("gone");
    transport.post_receive(64, 1, 0)->wait();
  });
  EXPECT_TRUE(error.starts_with("rank 1: ")) << error;
}

TEST_P(OfEachKind, ALostPeerIsNamedByWhoSends) {
  const std::string error = failure(2, 10, [](Transport& transport) {
    if (transport.rank() == 1) throw PeerError("gone");
    send(transport, bytes(64, 0), 1, 0)->wait();
  });
  EXPECT_TRUE(error.starts_with("rank 1: ")) << error;
}

TEST_P(OfEachKind, AMessageThatNeverComesEndsTheWait) {
  const std::string error = failure(2, 0.2, [](Transport& transport) {
    if (transport.rank() == 0) transport.post_receive(64, 1, 0)->wait();
    if (transport.rank() == 1) sleep_s(1);
  });
  EXPECT_EQ(error, GetParam() == TransportKind::kGloo
                       ? "rank 1: Timed out waiting 200ms for recv operation to complete"
                       : "rank 1: did not answer within 0.2 s");
}

TEST(SharedMemory, RefusesAMessageOfAnotherSize) {
  auto transports = connect_threads(2, 10);
  try {
    run_thread_ranks(transports, [](Transport& transport) {
      if (transport.rank() == 0) {
        const auto receive = transport.post_receive(64, 1, 5);
        transport.barrier();
      } else {
        transport.barrier();
        send(transport, bytes(65, 0), 0, 5);
      }
    });
    FAIL() << "65 bytes arrived in 64";
  } catch (const RunError& error) {
    EXPECT_STREQ(error.what(),
                 "message 5 between this rank and rank 0: 65 bytes sent, 64 expected");
  }
}

TEST(SharedMemory, CountsAMessageOnceAsTheMemoryOfItsRank) {
  install_counting_allocator();
  auto transports = connect_threads(2, 10);
  std::atomic<bool> posted = false;
  run_thread_ranks(transports, [&](Transport& transport) {
    constexpr std::int64_t kBytes = 1000;
    const std::int64_t before = live_tensor_bytes();
    if (transport.rank() == 0) {
      auto receive = transport.post_receive(kBytes, 1, 0);
      EXPECT_EQ(live_tensor_bytes() - before, kBytes);
      posted = true;
      at::Tensor message = receive->wait();
      receive.reset();
      EXPECT_EQ(live_tensor_bytes() - before, kBytes);
      message.reset();
      EXPECT_EQ(live_tensor_bytes() - before, 0);
    } else {
      while (!posted) sleep_s(0.001);
      transport.start_send(kBytes, 0, 0, [](std::byte*) {})->wait();
      EXPECT_EQ(live_tensor_bytes() - before, 0);  // it was packed where it is read
    }
  });
}

TEST(SharedMemory, IsNotFoundWhereTheAddressSaysNothing) {
  EXPECT_EQ(SharedMemory::attach(""), nullptr);
  EXPECT_EQ(SharedMemory::attach("none"), nullptr);
  EXPECT_EQ(SharedMemory::attach("another/machine 1 3 4096"), nullptr);
}

TEST(Transport, GlooWaitsThroughOurEpollWait) {
  // What the dynamic linker gives to libgloo is the definition in this program.
  void* found = dlsym(RTLD_DEFAULT, "epoll_wait");
  Dl_info where{};
  ASSERT_NE(dladdr(found, &where), 0);
  EXPECT_EQ(std::filesystem::weakly_canonical(where.dli_fname),
            std::filesystem::read_symlink("/proc/self/exe"));
}

TEST(ConnectProcesses, RanksFindEachOtherThroughTheFolder) {
  const TestFolder folder;
  std::atomic<int> sum = 0;
  std::vector<std::thread> ranks;
  for (const int rank : {2, 1, 0}) {
    ranks.emplace_back([&, rank] {
      const auto transport =
          connect_processes({}, folder.path(), rank, 3, 10, TransportKind::kAuto);
      const at::Tensor values = at::full({1}, rank + 1, at::kLong);
      transport->all_reduce_sum(values);
      sum += static_cast<int>(values.item<std::int64_t>());
      transport->barrier();
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(sum, 3 * 6);
}

TEST(ConnectProcesses, SaysThatRank0NeverCame) {
  const TestFolder folder;
  try {
    connect_processes({}, folder.path(), 1, 2, 0.1, TransportKind::kAuto);
    FAIL() << "connected to nobody";
  } catch (const PeerError& error) {
    EXPECT_EQ(std::string(error.what()),
              "rank 0: published no port in " + folder.path() + "/port within 0.1 s");
  }
}

}  // namespace
}  // namespace graphpipe
