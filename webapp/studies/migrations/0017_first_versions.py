import hashlib
import json

from django.db import migrations
from django.db.models import Min

SECTIONS = {
    "texts": (
        "title",
        "minutes",
        "payment",
        "promises_pay_on_failure",
        "organisation",
        "contact",
        "consent_points",
        "consent_text",
        "instructions_text",
        "thanks_text",
    ),
    "chat": ("min_exchanges", "max_exchanges", "max_message_chars", "typing_chars_per_s"),
    "recruitment": (
        "prolific_rated",
        "prolific_bot_failed",
        "prolific_withdrawn",
        "completion_url",
        "auto_return",
        "frame_ancestors",
    ),
    "quotas": ("n_conversations_wanted", "max_conversations_per_participant", "max_cost"),
}


def digest_of(values, rubric):
    said = {"values": values, "rubric": f"{rubric.name} v{rubric.version}"}
    text = json.dumps(said, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def columns_into_versions(apps, schema_editor):
    """What a study said in columns is its first version, and that of every task given so far."""
    Study = apps.get_model("studies", "Study")
    StudyVersion = apps.get_model("studies", "StudyVersion")
    Participant = apps.get_model("studies", "Participant")
    Task = apps.get_model("studies", "Task")
    for study in Study.objects.all():
        values = {
            section: {name: getattr(study, name) for name in names}
            for section, names in SECTIONS.items()
        }
        values["bots"] = study.bots
        first = Participant.objects.filter(study=study, is_synthetic=False).aggregate(
            at=Min("consented_at")
        )
        version = StudyVersion.objects.create(
            study=study,
            number=1,
            values=values,
            rubric_id=study.rubric_id,
            digest=digest_of(values, study.rubric),
            frozen_at=first["at"],
        )
        Study.objects.filter(pk=study.pk).update(version=version)
        Task.objects.filter(participant__study=study).update(version=version)


class Migration(migrations.Migration):
    dependencies = [("studies", "0016_study_versions")]

    operations = [migrations.RunPython(columns_into_versions)]
