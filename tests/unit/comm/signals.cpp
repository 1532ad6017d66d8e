// Each case in a process of its own: what a signal does is a matter of the process.
#include "src/comm/signals.h"

#include <cerrno>
#include <csignal>
#include <functional>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ogrom {
namespace {

// The wait status of a child that runs `body`; what it wrote to standard error goes to `said`.
int status_of(const std::function<int()>& body, std::string* said = nullptr) {
    int pipe_ends[2] = {};
    EXPECT_EQ(pipe(pipe_ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        dup2(pipe_ends[1], STDERR_FILENO);
        close(pipe_ends[0]);
        _exit(body());
    }
    close(pipe_ends[1]);
    char bytes[4096];
    for (ssize_t got = 0; (got = read(pipe_ends[0], bytes, sizeof(bytes))) > 0;) {
        if (said != nullptr) {
            said->append(bytes, static_cast<std::size_t>(got));
        }
    }
    close(pipe_ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    return status;
}

bool exited(int status, int code) {
    return WIFEXITED(status) && WEXITSTATUS(status) == code;
}

TEST(StopSignals, EachAsksForAStopAndKillsNothing) {
    for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2}) {
        const int status = status_of([number] {
            std::signal(SIGHUP, SIG_DFL);
            install_stop_signals();
            const bool before = stop_signalled();
            std::raise(number);
            return !before && stop_signalled() && stop_sender() == getpid() && stop_signal_name()[0] == 'S' ? 0 : 1;
        });
        EXPECT_TRUE(exited(status, 0)) << number << ": " << status;
    }
}

TEST(StopSignals, EndACommandThatHasNothingToSave) {
    const int status = status_of([] {
        install_stop_signals();
        end_on_stop_signals();
        std::raise(SIGINT);
        return 0;
    });
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << status;
}

TEST(StopSignals, NohupIsRespected) {
    const int status = status_of([] {
        std::signal(SIGHUP, SIG_IGN);
        install_stop_signals();
        std::raise(SIGHUP);
        return stop_signalled() ? 1 : 0;
    });
    EXPECT_TRUE(exited(status, 0)) << status;
}

TEST(StopSignals, ASecondInterruptEndsAtOnceAndSaysSo) {
    std::string said;
    const int twice = status_of(
        [] {
            install_stop_signals();
            std::raise(SIGINT);
            usleep(300'000);
            std::raise(SIGINT);
            return 1;
        },
        &said);
    EXPECT_TRUE(WIFSIGNALED(twice) && WTERMSIG(twice) == SIGINT) << twice;
    EXPECT_NE(said.find("interrupted twice"), std::string::npos) << said;
    // One press that arrives twice, and other signals after it, still save.
    const int once = status_of([] {
        install_stop_signals();
        std::raise(SIGINT);
        std::raise(SIGINT);
        usleep(300'000);
        std::raise(SIGTERM);
        return 0;
    });
    EXPECT_TRUE(exited(once, 0)) << once;
}

TEST(StopSignals, AReaderThatIsGoneIsAnErrorOfTheWrite) {
    const int status = status_of([] {
        install_stop_signals();
        int ends[2] = {};
        if (pipe(ends) != 0) {
            return 2;
        }
        close(ends[0]);
        return write(ends[1], "x", 1) == -1 && errno == EPIPE ? 0 : 1;
    });
    EXPECT_TRUE(exited(status, 0)) << status;
}

}  // namespace
}  // namespace ogrom
