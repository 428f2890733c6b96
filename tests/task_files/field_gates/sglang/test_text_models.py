from types import SimpleNamespace

from sglang.test.run_eval import run_eval

MODEL_SCORE_THRESHOLDS = {
    "org/Instruct-8B": 0.80,  # 84.5% - 5%
    "org/Instruct-8B-FP8": 0.79,
}


class TestAccuracy:
    def test_all_models(self):
        args = SimpleNamespace(eval_name="gsm8k", num_examples=None)
        self.check(run_eval(args), MODEL_SCORE_THRESHOLDS)

    def test_mmlu(self):
        args = SimpleNamespace(eval_name="mmlu", num_examples=5000)
        self.assertGreater(run_eval(args)["score"], 0.62)
