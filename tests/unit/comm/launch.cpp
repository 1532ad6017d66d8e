#include "src/comm/launch.h"

#include <gtest/gtest.h>
#include <map>

namespace ogrom {
namespace {

LaunchFacts facts_of(const std::map<std::string, std::string>& variables, bool is_root = false) {
    return read_launch(
        [&](const char* name) {
            const auto found = variables.find(name);
            return found == variables.end() ? nullptr : found->second.c_str();
        },
        is_root);
}

std::string refusal(const std::map<std::string, std::string>& variables, long world, bool is_root = false) {
    return launch_refusal(facts_of(variables, is_root), world);
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

TEST(Launch, nothing_announced_is_a_singleton) {
    EXPECT_EQ(refusal({}, 1), "");
}

// B40: srun without the right plug-in.
TEST(Launch, srun_of_four_against_a_world_of_one_is_refused) {
    const std::string text = refusal({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "2"}}, 1);
    EXPECT_TRUE(has(text, "SLURM announces 4 tasks, but MPI sees 1")) << text;
    EXPECT_TRUE(has(text, "srun --mpi=pmix") && has(text, "mpirun")) << text;
    EXPECT_EQ(refusal({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "2"}}, 4), "");
}

// B40: found before MPI_Init, which ends the process there with a message of its own.
TEST(Launch, a_step_of_several_tasks_without_pmi_is_known_before_mpi_starts) {
    const std::map<std::string, std::string> step = {
        {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "2"}, {"SLURM_STEP_ID", "0"}};
    const auto with = [&](const char* name, const char* value) {
        std::map<std::string, std::string> more = step;
        more[name] = value;
        return facts_of(more).step_without_pmi;
    };
    EXPECT_TRUE(facts_of(step).step_without_pmi);
    EXPECT_FALSE(with("PMIX_RANK", "2"));
    EXPECT_FALSE(with("PMI_FD", "9"));
    EXPECT_FALSE(with("OMPI_COMM_WORLD_SIZE", "4"));
    EXPECT_FALSE(with("SLURM_NTASKS", "1"));
    EXPECT_FALSE(with("SLURM_STEP_ID", "4294967291"));  // the batch script itself
    EXPECT_FALSE(facts_of({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}}).step_without_pmi);
}

TEST(Launch, the_step_counts_more_than_the_job) {
    EXPECT_EQ(refusal({{"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}}, 1), "");
    EXPECT_NE(refusal({{"SLURM_NTASKS", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "0"}}, 1), "");
    EXPECT_NE(refusal({{"SLURM_NPROCS", "2"}, {"SLURM_PROCID", "0"}}, 1), "");
}

TEST(Launch, a_shell_inside_salloc_may_run_one_process) {
    EXPECT_EQ(refusal({{"SLURM_NTASKS", "4"}}, 1), "");
}

TEST(Launch, mpirun_inside_a_slurm_job_announces_its_own_ranks) {
    const std::map<std::string, std::string> job = {
        {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "1"}};
    EXPECT_EQ(refusal(job, 2), "");
    EXPECT_EQ(facts_of(job).rank, 1);
}

TEST(Launch, mpirun_of_another_library_is_refused) {
    const std::string text = refusal({{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "0"}}, 1);
    EXPECT_TRUE(has(text, "announces 2 tasks, but MPI sees 1")) << text;
    EXPECT_NE(refusal({{"PMI_SIZE", "3"}, {"PMI_RANK", "0"}}, 1), "");
    EXPECT_NE(refusal({{"MV2_COMM_WORLD_SIZE", "3"}, {"MV2_COMM_WORLD_RANK", "0"}}, 1), "");
    EXPECT_NE(refusal({{"PMIX_RANK", "3"}}, 1), "");
    EXPECT_EQ(refusal({{"PMIX_RANK", "3"}}, 8), "");
    EXPECT_EQ(refusal({{"PMIX_RANK", "0"}}, 1), "");
}

TEST(Launch, root_is_told_what_open_mpi_wants) {
    const std::map<std::string, std::string> step = {{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}};
    EXPECT_TRUE(has(refusal(step, 1, true), "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"));
    EXPECT_FALSE(has(refusal(step, 1, false), "OMPI_ALLOW_RUN_AS_ROOT"));
    auto allowed = step;
    allowed.emplace("OMPI_ALLOW_RUN_AS_ROOT", "1");
    EXPECT_TRUE(has(refusal(allowed, 1, true), "OMPI_ALLOW_RUN_AS_ROOT"));  // one of two is not enough
    allowed.emplace("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    EXPECT_FALSE(has(refusal(allowed, 1, true), "OMPI_ALLOW_RUN_AS_ROOT"));
}

TEST(Launch, nonsense_in_a_variable_is_not_a_number_of_tasks) {
    EXPECT_EQ(refusal({{"SLURM_NTASKS", "4(x2)"}, {"SLURM_PROCID", "0"}}, 1), "");
    EXPECT_EQ(refusal({{"OMPI_COMM_WORLD_SIZE", ""}}, 1), "");
    EXPECT_EQ(refusal({{"OMPI_COMM_WORLD_SIZE", "-2"}}, 1), "");
}

}  // namespace
}  // namespace ogrom
