"""A homework that imports: a script as a student writes it runs on the package and what it requires, alone."""

import json
import re
import subprocess
import sys
from importlib.metadata import packages_distributions, requires

SCRIPT = """
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from residual_edu import GradientFlowRecorder, LayerNorm, ResidualBlock, parameter_groups

torch.manual_seed(0)
patterns = torch.randn(10, 8, 8)  # ten classes: each a picture of eight rows

class Net(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.embed = nn.Linear(8, dim)  # a row is a position
        self.position = nn.Parameter(0.1 * torch.randn(8, dim))
        self.blocks = nn.Sequential(*(ResidualBlock.standard(dim, 4) for _ in range(3)))
        self.norm, self.head = LayerNorm(dim), nn.Linear(dim, 10)

    def forward(self, pictures):
        x = self.blocks(self.embed(pictures) + self.position)
        return self.head(self.norm(x).mean(1))

net = Net()
optimizer = torch.optim.AdamW(parameter_groups(net, weight_decay=0.01), lr=0.003)
losses = []
with GradientFlowRecorder(net, net.blocks) as flow:
    for step in range(60):
        labels = torch.randint(10, (32,))
        loss = cross_entropy(net(patterns[labels] + torch.randn(32, 8, 8)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
"""


def test_a_students_network_learns_and_is_recorded_without_the_course_and_its_extras():
    extras = set(re.findall(r"^([\w-]+).*extra ==", "\n".join(requires("residual_edu")), re.M))
    absent = [name for name, of in packages_distributions().items() if extras & set(of)] + ["residual_course"]
    assert {"sklearn", "matplotlib", "beartype", "pytest"} <= set(absent)
    missing = f"import sys; sys.modules.update(dict.fromkeys({absent}))"  # each is then not found
    shown = "import json; print(json.dumps([losses, flow.stream_gradient.tolist()]))"
    done = subprocess.check_output([sys.executable, "-W", "error", "-c", f"{missing}\n{SCRIPT}\n{shown}"], text=True)
    losses, gradients = json.loads(done)
    assert sum(losses[-5:]) < sum(losses[:5]) / 4
    assert len(gradients) == len(losses) and all(len(row) == 4 and min(row) > 0 for row in gradients)
