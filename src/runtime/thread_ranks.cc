#include "runtime/thread_ranks.h"

#include <ATen/Parallel.h>

#include <exception>
#include <thread>

#include "runtime/rank_trainer.h"

namespace graphpipe {
namespace {

bool merely_lost_a_peer(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ActionError& failed) {
    return failed.peer_lost();
  } catch (const PeerError&) {
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

void run_thread_ranks(std::vector<std::unique_ptr<Transport>>& transports,
                      const std::function<void(Transport&)>& body) {
  std::vector<std::exception_ptr> errors(transports.size());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < transports.size(); ++r) {
    threads.emplace_back([&, r] {
      at::set_num_threads(1);
      try {
        body(*transports[r]);
      } catch (const std::exception&) {
        errors[r] = std::current_exception();
        transports[r].reset();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::exception_ptr lost;
  for (const std::exception_ptr& error : errors) {
    if (error && !merely_lost_a_peer(error)) std::rethrow_exception(error);
    if (error && !lost) lost = error;
  }
  if (lost) std::rethrow_exception(lost);
}

}  // namespace graphpipe
