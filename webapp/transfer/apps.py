"""App configuration: registers job kinds, and removes files on erasure."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class TransferConfig(AppConfig):
    name = "webapp.transfer"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from webapp.jobs.kinds.base import kinds

        kinds.look_into("webapp.transfer.kinds")
        from webapp.core.audit_trail import vocabulary_add
        from webapp.core.project_disk import disk_register
        from webapp.studies.privacy import erasure_follow, erasure_kind
        from webapp.studies.privacy.retention import TextsKind, texts_kind
        from webapp.studies.project_moves import study_moved
        from webapp.transfer.exporters.base import exporters, run_exporters
        from webapp.transfer.import_scores import scores_move
        from webapp.transfer.job_files import exports_forget, project_exports, project_uploads, uploads_forget
        from webapp.transfer.redaction.review import hits_forget, hits_of, hits_of_study
        from webapp.transfer.report_links import shares_forget

        vocabulary_add(
            "table", lambda: {*exporters.names(), *(table.name for table in run_exporters()), "package", "dataset"}
        )
        erasure_follow(exports_forget)
        erasure_follow(shares_forget)
        erasure_follow(uploads_forget)
        erasure_kind("redaction_hits", _("marks of personal data in texts"), hits_of)
        texts_kind("redaction_hits", TextsKind(hits_of_study, hits_forget))
        study_moved.connect(scores_move)
        disk_register("Exports and reports", project_exports)
        disk_register("Uploads to import", project_uploads)
