/** The words of the other language, as part of the file. */

import { language } from "../i18n/language";
import { zh } from "../i18n/zh";

export const translations = language === "zh" ? zh : null;
