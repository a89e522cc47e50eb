"""App configuration: registers the kinds of job of this app, and removes exported and uploaded files on erasure."""

from django.apps import AppConfig


class TransferConfig(AppConfig):
    name = "webapp.transfer"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from webapp.runs.kinds.base import kinds

        kinds.look_into("webapp.transfer.kinds")
        from webapp.studies.erasure import erasure_follow
        from webapp.transfer.exports import exports_forget
        from webapp.transfer.sharing import shares_forget
        from webapp.transfer.uploads import uploads_forget

        erasure_follow(exports_forget)
        erasure_follow(shares_forget)
        erasure_follow(uploads_forget)
