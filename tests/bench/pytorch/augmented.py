"""Images with the usual augmentation for classification, for dataset_speed.py."""
import torch
from torchvision.transforms import v2

CLASSES, IMAGES = 10, 64


class Augmented(torch.utils.data.Dataset):
    """uint8 images [3, 256, 256] that become fp32 [3, size, size]; some images are many samples."""

    def __init__(self, samples, size):
        generator = torch.Generator().manual_seed(1)
        self.images = torch.randint(0, 256, (IMAGES, 3, 256, 256), dtype=torch.uint8,
                                    generator=generator)
        self.samples = samples
        self.change = v2.Compose([
            v2.RandomResizedCrop(size, antialias=True), v2.RandomHorizontalFlip(),
            v2.ColorJitter(0.4, 0.4, 0.4), v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])

    def __len__(self):
        return self.samples

    def __getitem__(self, index):
        return self.change(self.images[index % IMAGES]), index % CLASSES
