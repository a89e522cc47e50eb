"""View of Prolific's webhook."""

from __future__ import annotations

import logging

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from webapp.core.errors import Refused
from webapp.pay.platform_status import WebhookOutcome, event_read, event_take

log = logging.getLogger(__name__)


@csrf_exempt  # requests are signed and have no session
@require_POST
def prolific_hook(request: HttpRequest, key: str) -> HttpResponse:
    """Store a submission's status from Prolific's webhook, if Prolific has signed it.

    Otherwise the response is 403, and the refusal is logged.
    """
    try:
        event = event_read(
            WebhookOutcome(
                body=request.body,
                signature=request.headers.get("X-Prolific-Request-Signature", ""),
                timestamp=request.headers.get("X-Prolific-Request-Timestamp", ""),
                event_id=request.headers.get("X-Event-ID", ""),
            ),
            secret=settings.CONFAB_PROLIFIC_HOOK_SECRET,
        )
        result = event_take(study_key=key, event=event)
    except Refused as refused:
        log.warning("the webhook of study %s refused a request: %s", key, refused.message)
        status = 400 if refused.code == "bad_body" else 403
        return JsonResponse({"error": refused.code}, status=status)
    return JsonResponse({"result": result})
